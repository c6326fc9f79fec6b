"""A model without servers: gradients travel between trainers, each keeps its own copy.

It begins with the first trainer's values, by a table. Since all step from the same values
by the same gradients, they stay the same; nobody pulls. What joiners, checkpoints and
returns need of it is tracked.

Waits: as `paceline.trainer.peers.calls`. The thread of the user's loop calls.
"""

import warnings
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import nn

from paceline.config import Sync
from paceline.errors import UsageError
from paceline.trainer.encoding import all_finite
from paceline.trainer.engine import Scaled, StepWarning
from paceline.trainer.membership import Membership
from paceline.trainer.model import WatchedModel, load_own_state, own_state, step_own
from paceline.trainer.peers import Array, Operation
from paceline.trainer.rows import Embedding
from paceline.trainer.seat import Seat
from paceline.trainer.share.optimizer import SharedOptimizer
from paceline.trainer.share.sharing import Sharing
from paceline.trainer.tables import describe_table

_WIDTH = 1024  # of a row of the table that values begin in
_DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_NOT_FINITE = "gradients are not finite: this batch counts without them"


class _Kept(NamedTuple):
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer

    def state_dict(self) -> dict[str, Any]:
        return {
            "parameters": [p.detach().cpu() for p in self.parameters],
            "optimizer": own_state(self.optimizer),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.parameters, state["parameters"], strict=True):
                parameter.copy_(value)
        load_own_state(self.optimizer, state["optimizer"])


def share_between(
    seat: Seat,
    sharing: Sharing,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
) -> SharedOptimizer:
    """Share a model whose gradients travel between trainers; see `Session.share`.

    Raises:
        UsageError: it holds embeddings, other dtypes than one of float32 and float64, or
            sparse gradients.
    """
    parameters = _check(model, optimizer)
    assert optimizer is not None
    membership = seat.alone("share(pace='allreduce')").membership
    name = f"model {sharing.num_parts}"
    sharing.check_new({parameter: n for n, parameter in model.named_parameters()})
    begins = _flat([p.detach() for p in parameters])
    rows = -(-len(begins) // _WIDTH)
    padded = np.zeros((rows, _WIDTH), begins.dtype)
    padded.reshape(-1)[: len(begins)] = begins
    spec, init = describe_table(name, padded.shape, begins.dtype, "add", padded, None)
    table = sharing.add_table(spec, Sync(reduce="sum"), init, must_step=name)
    _unflatten(table.read(np.arange(rows)).reshape(-1), parameters)
    tracker = membership.carrier.tracker
    tracker.add(f"parameters of {name}", _Kept(parameters, optimizer))
    tracker.add_model(table.part, model, optimizer)
    sharing.note(model, parameters)
    watched = WatchedModel(model, lambda _: True)
    membership.carrier.tables[table.part].models.append(watched)
    between = Between(membership, table.part, name, parameters, optimizer)

    def step(scaled: Scaled) -> None:
        sharing.schedules.set_rates(membership.carrier.protocol.asking.records)
        between.step(scaled)

    return SharedOptimizer(optimizer, step, lambda: None, steps_here=True)


@final
class Between:
    """The steps of one model whose gradients travel between trainers."""

    def __init__(
        self,
        membership: Membership,
        part: int,
        name: str,
        parameters: list[nn.Parameter],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._membership, self._part = membership, part
        self._operation = Operation(name, "allreduce")
        self._parameters, self._optimizer = parameters, optimizer

    def step(self, scaled: Scaled) -> None:
        """A round: the mean over the records of all, then the own optimizer's step.

        Gradients that are not finite stay out of it; the batch counts. A parameter without
        a gradient anywhere is not touched.
        """
        grads = [p.grad for p in self._parameters]
        has_any = [grad is not None for grad in grads]
        flat = _flat(
            [
                torch.zeros_like(p) if grad is None else grad.detach()
                for p, grad in zip(self._parameters, grads, strict=True)
            ]
        )
        records = self._records()
        if scaled == "not finite" or not all_finite([torch.from_numpy(flat)]):
            flat, has_any = np.zeros_like(flat), [False] * len(has_any)
            if scaled != "not finite":
                warnings.warn(_NOT_FINITE, StepWarning, stacklevel=3)
        flat *= flat.dtype.type(records)
        brought = [
            flat,
            np.array(has_any, np.int64),
            np.array([records], np.int64),
        ]
        made = self._membership.collectives.run(self._part, self._operation, brought)
        if not made.is_committed:
            return
        total, present, [num_records] = made.results
        total /= total.dtype.type(max(int(num_records), 1))
        _unflatten(total, self._parameters, into_gradients=True)
        for parameter, count in zip(self._parameters, present, strict=True):
            if not count:
                parameter.grad = None
        step_own(self._optimizer)

    def _records(self) -> int:
        """Of the batch in the user's hands."""
        window = self._membership.carrier.protocol.parts[self._part].window.copy()
        return window.close()[1] if window.step() else 0


def _check(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> list[nn.Parameter]:
    """The parameters, in the order of the optimizer's groups."""
    if optimizer is None or any(isinstance(m, Embedding) for m in model.modules()):
        raise UsageError(
            "share: allreduce moves dense parameters by the trainers' own optimizer, and "
            "rows of embeddings live on servers: share embeddings first, as a part of "
            "their own with another pace"
        )
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    own = {id(parameter) for parameter in model.parameters()}
    if not parameters or not all(id(parameter) in own for parameter in parameters):
        raise UsageError("share: the optimizer moves parameters that the model has not")
    dtypes = {parameter.dtype for parameter in parameters}
    if len(dtypes) > 1 or not dtypes <= _DTYPES.keys():
        found = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise UsageError(
            f"share: allreduce takes parameters of one dtype, float32 or float64, got "
            f"{found}: share them as several models"
        )
    if any(getattr(module, "sparse", False) for module in model.modules()):
        raise UsageError("share: allreduce takes no sparse gradients: use pace sync")
    return parameters


def _flat(tensors: list[torch.Tensor]) -> Array:
    found: Array = torch.cat([t.reshape(-1).cpu() for t in tensors]).numpy()
    return found


def _unflatten(
    flat: Array, parameters: list[nn.Parameter], *, into_gradients: bool = False
) -> None:
    values, start = torch.from_numpy(flat), 0
    with torch.no_grad():
        for parameter in parameters:
            piece = values[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()
            if not into_gradients:
                parameter.copy_(piece)
            elif parameter.grad is None:
                parameter.grad = piece.to(parameter.device)
            else:
                parameter.grad.copy_(piece)
