"""By what the rows of an embedding learn that names no optimizer: that of its `share`.

::

    share(model, Adam)               its lazy twin, its rate and schedule: of one group
    share(model, None)               Adagrad(lr=0.05)
    rows that are shared already     what they have, which must be the same
    a job that has begun before      what they have

Pure, but for a line in the log.
"""

import logging

import msgspec
import torch

from paceline.config import RowOptimizer
from paceline.errors import UsageError
from paceline.messages.shared import PartSpec, TableSpec
from paceline.params.rows import twin_of
from paceline.trainer.rows import Embedding, EmbeddingRows
from paceline.trainer.tensors import hyper_of

_log = logging.getLogger("paceline.trainer")


def table_of(
    module: Embedding, optimizer: torch.optim.Optimizer | None, known: EmbeddingRows | None
) -> TableSpec:
    """What an embedding's table is, its optimizer settled; ``known``: if it is shared.

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
