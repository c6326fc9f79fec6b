"""What a model and its optimizer are, said in the words that all roles share.

A model that is stepped here, as the parts that it is shared as: whole, or in fragments.

Pure, but for a line in the log.
"""

import logging
import math
from collections.abc import Collection
from typing import NamedTuple

import msgspec
import torch
from torch import nn

from paceline.config import Pace, RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import (
    Hyper,
    OptimizerSpec,
    ParameterSpec,
    PartSpec,
    TableSpec,
)
from paceline.pace.changing import outer_optimizer
from paceline.pace.policy import cut_fragments, fragments_of, mix_of
from paceline.params.blocks import dtype_bytes
from paceline.params.dense import NOT_SHARED, OPTIMIZERS
from paceline.params.rows import twin_of
from paceline.params.sparse import SPARSE_OPTIMIZERS, why_not_by_rows
from paceline.trainer.model import Frozen
from paceline.trainer.rows import Embedding, EmbeddingRows
from paceline.trainer.tensors import Deltas, hyper_of

_log = logging.getLogger("paceline.trainer")


class Described(NamedTuple):
    """The dense side of a part: ``parameters[i]`` is what ``specs[i]`` describes.

    ``optimizer`` is that of the servers; ``inner`` the trainer's own, where it steps by
    itself and servers could do it as well. ``frozen`` is what the model has beside them.
    """

    parameters: tuple[nn.Parameter, ...]
    specs: tuple[ParameterSpec, ...]
    optimizer: OptimizerSpec | None
    inner: OptimizerSpec | None = None
    frozen: Frozen | None = None


def describe(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Described:
    """Describe the trainable parameters of a model, and the optimizer that changes them.

    Tied parameters are one, with several names. Frozen ones (``requires_grad`` is False)
    are left out: they must be the same on every trainer from the beginning.

    Raises:
        UsageError: an optimizer that no server knows or that has stepped already; a
            parameter that only one of the two has; a dtype that cannot be shared.
    """
    names = _trainable(model)
    if optimizer is None:
        if names:
            raise UsageError(
                f"share: {next(iter(names.values()))[0]!r} is trainable, but there is no "
                "optimizer: give one, or freeze it (requires_grad=False)"
            )
        return Described((), (), None)
    _check_optimizer(optimizer)
    group_of = _groups(optimizer, names)
    for parameter, own in names.items():
        if parameter not in group_of:
            raise UsageError(
                f"share: {own[0]!r} is trainable, but in no parameter group of the "
                "optimizer: add it, or freeze it (requires_grad=False)"
            )
    groups = hyper_of(optimizer.param_groups)
    hyper = {parameter: groups[group_of[parameter]] for parameter in names}
    _check_max_norm(model)
    sparse = _find_sparse(model, type(optimizer).__name__, names, hyper)
    specs = tuple(
        ParameterSpec(
            tuple(own), tuple(p.shape), _dtype(own[0], p), group_of[p], p in sparse
        )
        for p, own in names.items()
    )
    return Described(tuple(names), specs, OptimizerSpec(type(optimizer).__name__, groups))


def _trainable(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """{trainable parameter: its names}."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(parameter, []).append(name)
    return names


def describe_local(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    pace: Pace,
    *,
    processes: int,
    known: Collection[str],
) -> Described:
    """Describe a model that trainers move themselves, and servers by outer steps.

    Any optimizer will do that steps on the parameters it is given; parameters of the
    model that it does not have stay as they are on the servers.

    Raises:
        UsageError: a parameter that the model has not; sparse gradients, or rows that are
            not shared yet; a dtype that cannot be shared; a trainer of several processes.
    """
    if processes > 1:
        raise UsageError(
            f"share: {pace} takes steps in each process by itself, and a trainer of "
            f"{processes} acts as one: use --ranks-per-trainer 1"
        )
    tables = [m.spec.name for m in model.modules() if isinstance(m, Embedding)]
    new = [name for name in tables if name not in known]
    if optimizer is None or new:
        what = f"the rows of {new[0]!r}" if new else "a model of embeddings"
        raise UsageError(
            f"share: {pace} moves dense parameters, and {what} cannot be stepped here: "
            f"share embeddings first, as a part of their own with another pace"
        )
    names = _trainable(model)
    _groups(optimizer, names)
    if any(map(_is_sparse, model.modules())):
        raise UsageError(
            "share: deltas are dense, and the model has an nn.Embedding with sparse=True: "
            "use sparse=False, or share it as a part of its own with another pace"
        )
    try:
        found = describe(model, optimizer)
    except UsageError:  # no server could do it; nobody asks for that yet
        found = None
    if found is not None and found.optimizer is not None:
        outer = outer_optimizer(pace, len(found.optimizer.groups))
        return found._replace(optimizer=outer, inner=found.optimizer)
    specs = tuple(
        ParameterSpec(tuple(own), tuple(p.shape), _dtype(own[0], p), 0, False)
        for p, own in names.items()
    )
    return Described(tuple(names), specs, outer_optimizer(pace, 1))


def _check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    kind = type(optimizer)
    name = kind.__name__
    if OPTIMIZERS.get(name) is not kind and kind is not torch.optim.SparseAdam:
        reason = NOT_SHARED.get(name, "it is not torch's own")
        raise UsageError(
            f"share: no server knows the optimizer {kind.__module__}.{kind.__qualname__}: "
            f"{reason}; "
            f"it may be one of torch.optim: {', '.join(OPTIMIZERS)}"
        )
    if _has_stepped(optimizer):
        raise UsageError(
            f"share: the {name} has stepped already, and its state does not "
            "travel: share it before its first step"
        )


def _has_stepped(optimizer: torch.optim.Optimizer) -> bool:
    """Adagrad has state from the start, at step 0; the others when they have stepped."""
    return any(float(state.get("step", 1)) > 0 for state in optimizer.state.values())


def _groups(
    optimizer: torch.optim.Optimizer, names: dict[nn.Parameter, list[str]]
) -> dict[nn.Parameter, int]:
    group_of: dict[nn.Parameter, int] = {}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if parameter.requires_grad and parameter not in names:
                raise UsageError(
                    f"share: parameter group {index} of the optimizer has a parameter of "
                    f"shape {tuple(parameter.shape)} that is not in the model: it was made "
                    f"for other parameters; make the model first, then the optimizer, from "
                    f"model.parameters()"
                )
            group_of[parameter] = index
    return group_of


def _check_max_norm(model: nn.Module) -> None:
    """What a forward changes by itself, no server hears of, and the next pull undoes."""
    for name, module in model.named_modules():
        if not isinstance(module, nn.Embedding | nn.EmbeddingBag):
            continue
        if module.max_norm is not None and module.weight.requires_grad:
            raise UsageError(
                f"share: {name or type(module).__name__!r} has max_norm={module.max_norm}, "
                "by which its forward changes the weight itself, on this trainer alone; "
                "leave it out, and bound the norm in the loss or by weight_decay"
            )


def _find_sparse(
    model: nn.Module,
    kind: str,
    names: dict[nn.Parameter, list[str]],
    hyper: dict[nn.Parameter, Hyper],
) -> set[nn.Parameter]:
    """The parameters whose gradients have rows only, and which change by rows, too.

    Where torch's own optimizer moves other rows as well (momentum), or other modules use
    the weight as well (tied ones), it is like any other parameter.
    """
    owners: dict[nn.Parameter, list[nn.Module]] = {}  # {parameter: modules that hold it}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(parameter, []).append(module)
    found = set()
    for parameter, own in names.items():
        if not any(map(_is_sparse, owners[parameter])):
            continue
        _check_sparse(own[0], kind, hyper[parameter])
        is_by_rows = why_not_by_rows(kind, hyper[parameter]) is None
        if is_by_rows and all(map(_is_sparse, owners[parameter])):
            found.add(parameter)
    if kind == "SparseAdam" and len(found) < len(names):
        dense = [own[0] for parameter, own in names.items() if parameter not in found]
        raise UsageError(
            f"share: {dense[0]!r} is in the SparseAdam, but has dense gradients, and torch "
            "refuses it as well (SparseAdam does not support dense gradients): share the "
            "model in parts, its nn.Embedding(sparse=True) with SparseAdam and the rest "
            "with another optimizer"
        )
    return found


def _is_sparse(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse


def _check_sparse(name: str, kind: str, hyper: Hyper) -> None:
    """Where a gradient has rows only, the optimizer must be one that takes it."""
    if kind in SPARSE_OPTIMIZERS and not hyper.get("weight_decay"):
        return
    raise UsageError(
        f"share: {name!r} is of an nn.Embedding or EmbeddingBag with sparse=True, whose "
        f"gradient has rows only, but {why_not_by_rows(kind, hyper)}, and torch refuses it "
        f"as well: use {', '.join(SPARSE_OPTIMIZERS)} without weight_decay (an optimizer "
        "of its own: share the model in parts), sparse=False, or paceline.Embedding, whose "
        "optimizers are lazy"
    )


def _dtype(name: str, parameter: nn.Parameter) -> str:
    dtype = str(parameter.dtype).removeprefix("torch.")
    try:
        dtype_bytes(dtype)
    except UsageError as error:
        raise UsageError(f"share: parameter {name!r}: {error}") from None
    return dtype


def cut_local(
    described: Described, optimizer: torch.optim.Optimizer, pace: Pace
) -> list[tuple[Described, Deltas]]:
    """The parts of a model, in the order of their turns, and how each moves here.

    Of fragments the first takes the steps of all, since they have one optimizer.

    Raises:
        UsageError: there are fewer parameters than fragments.
    """
    count = fragments_of(pace)
    if count > len(described.specs):
        raise UsageError(
            f"share: {pace} cuts a model into {count} fragments of whole parameters, and "
            f"this one has {len(described.specs)}: fragments is to be at most that"
        )
    sizes = [math.prod(one.shape) * dtype_bytes(one.dtype) for one in described.specs]
    found: list[tuple[Described, Deltas]] = []
    for indices in cut_fragments(sizes, count):
        parameters = tuple(described.parameters[i] for i in indices)
        specs = tuple(described.specs[i] for i in indices)
        deltas = Deltas(parameters, None if found else optimizer, mix=mix_of(pace))
        piece = described._replace(parameters=parameters, specs=specs)
        # What the model has beside them is the first one's.
        frozen = None if found else described.frozen
        found.append((piece._replace(frozen=frozen), deltas))
    return found


def table_of(
    module: Embedding, optimizer: torch.optim.Optimizer | None, known: EmbeddingRows | None
) -> TableSpec:
    """What an embedding's table is, with what its rows learn by.

    One that names no optimizer has the lazy twin of the one that it is shared with, its
    rate and schedule, or else Adagrad(lr=0.05); rows that are shared already, or a job that
    has begun before, keep what they have. ``known``: its table, if it is shared.

    Raises:
        UsageError: it follows an optimizer of several groups, or one without a twin; or
            another than the one that its rows follow already.
    """
    spec = module.spec
    if not module.follows:
        return spec
    if known is not None:
        if known.said.follows and optimizer is not None:
            twin = _twin(spec, optimizer)
            if twin != known.said.optimizer:
                raise UsageError(
                    f"share: rows of {spec.name!r} are shared already, and follow the "
                    f"optimizer of that model: {known.said.optimizer}; this model's is "
                    f"{twin}, and rows have one: {_write(spec)}"
                )
        return msgspec.structs.replace(
            spec, optimizer=known.spec.optimizer, follows=known.spec.follows
        )
    if optimizer is None:
        return spec
    twin = _twin(spec, optimizer)
    return msgspec.structs.replace(spec, optimizer=twin, follows=True)


def _twin(spec: TableSpec, optimizer: torch.optim.Optimizer) -> RowOptimizer:
    kind, groups = type(optimizer).__name__, hyper_of(optimizer.param_groups)
    front = f"share: the embedding {spec.name!r} follows the optimizer of its model"
    if len(groups) != 1:
        raise UsageError(
            f"{front}, which has {len(groups)} parameter groups, each with a rate of its "
            f"own: {_write(spec)}"
        )
    try:
        return twin_of(kind, groups[0])
    except UsageError as error:
        raise UsageError(f"{front}, and {error}; {_write(spec)}") from error


def _write(spec: TableSpec) -> str:
    return (
        f"say what its rows learn by, such as "
        f"Embedding({spec.name!r}, {spec.dim}, optimizer=paceline.Adam(lr=0.001))"
    )


def agreed_tables(came: PartSpec, agreed: PartSpec) -> tuple[TableSpec, ...]:
    """The tables of a part as its job has them; one line in the log where that is else."""
    for before, now in zip(agreed.tables, came.tables, strict=True):
        was, says = (before.optimizer, before.follows), (now.optimizer, now.follows)
        if was != says and not (before.follows and now.follows):
            _log.warning(
                "rows of %r go on with %s, as the job began, not with %s",
                now.name,
                before.optimizer,
                now.optimizer,
            )
    return agreed.tables
