"""A model that is the script's own again: what of it was shared ends.

::

    share   loop   unshare          its part has ended: values stay on the servers, for a
                                    trainer that begins again, and nobody waits for it
    (layers are unfrozen)
    share   loop                    another part, with another optimizer

Waits: for coordinator and servers, in `unshare_part`. The thread of the user's loop calls.
"""

from typing import NamedTuple

import torch

from paceline.trainer.engine.engine import TrainerEngine
from paceline.trainer.model import Schedules, WatchedModel, release
from paceline.trainer.protocol import unshare
from paceline.trainer.tensors import ModelTensors

_NOT_SHARED = (
    "unshare: expected a model that session.share was given, got a {kind} that is not "
    "shared{more}"
)
_BETWEEN = (
    "unshare: the model is shared with pace='allreduce', and each trainer has all of it "
    "already: take its parameters, in a copy of the model, to the next loop"
)
_ROWS = (
    "unshare: the rows of {name!r} are in one part with the model, and stay on the "
    "servers: share embeddings first, as parts of their own (session.embedding, or "
    "session.share(embedding)); then the rest of the model can be unshared"
)


class SharedModel(NamedTuple):
    """What a script has shared by one call.

    ``parts`` are of this model alone; with it lies what is watched of it.
    """

    parts: tuple[int, ...]
    at: int  # the part that it is watched with
    watched: WatchedModel
    optimizer: torch.optim.Optimizer | None


def why_not_unshared(
    kind: str,
    shared: SharedModel | None,
    numbers: dict[int, ModelTensors],
    *,
    is_between: bool,
) -> str | None:
    """Why a model cannot be unshared; None if it can."""
    if is_between:
        return _BETWEEN
    if shared is None:
        more = "" if numbers else ", and nothing is"
        return _NOT_SHARED.format(kind=kind, more=more)
    tables = [table for part in shared.parts for table in numbers[part].tables]
    if tables or not shared.parts:
        name = tables[0].spec.name if tables else numbers[shared.at].tables[0].spec.name
        return _ROWS.format(name=name)
    return None


def unshare_part(carrier: TrainerEngine, part: int) -> None:
    """End a part; its parameters have its last values, and are the script's."""
    protocol = carrier.protocol
    carrier.run(
        protocol.as_member(
            lambda: unshare(protocol.asking, protocol.parts[part], tuple(protocol.servers))
        )
    )
    if (early := carrier.numbers[part].early) is not None:
        early.end()
    carrier.forget(part)


def forget_model(
    shared: SharedModel, numbers: dict[int, ModelTensors], schedules: Schedules
) -> None:
    """Nothing watches over a model, nor over its optimizer."""
    if shared.at in numbers:
        numbers[shared.at].models.remove(shared.watched)
    if shared.optimizer is not None:
        schedules.drop(shared.optimizer)
        release(shared.optimizer)
