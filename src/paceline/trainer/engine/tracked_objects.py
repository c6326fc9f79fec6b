"""The user's own objects beside model and optimizer: schedulers, EMA, buffers of a model.

They live in every trainer and are not shared. One trainer's state goes into each cut; who
enters the job, or returns to a cut, loads it.

Waits for nothing. The thread of the user's loop calls; landings write from whichever thread
receives.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import msgspec
import torch
from torch import Tensor, nn

from paceline.errors import UsageError
from paceline.messages.data import KeepTracked
from paceline.trainer.encoding import decode_state, encode_state
from paceline.trainer.model import Buffers
from paceline.trainer.protocol import Tracking

_log = logging.getLogger("paceline.trainer")


@runtime_checkable
class Trackable(Protocol):
    """Anything with a state."""

    def state_dict(self) -> Any:  # noqa: ANN401  (the object's own)
        """Its state."""

    def load_state_dict(self, state: Any) -> Any:  # noqa: ANN401  (the object's own)
        """Take a state over."""


@final
class Settings:
    """What an optimizer's groups say beside their parameters: the rate, above all.

    A scheduler changes it there and does not keep it in its own state.
    """

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self._groups = groups

    def state_dict(self) -> list[dict[str, Any]]:
        """One dictionary a group."""
        return [{k: v for k, v in g.items() if k != "params"} for g in self._groups]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Change the groups, in place."""
        for group, values in zip(self._groups, state, strict=True):
            group.update(values)


@final
class Tracker:
    """Tracked objects of one trainer, by name."""

    def __init__(self) -> None:
        self._objects: dict[str, Trackable] = {}
        self._implied: dict[str, Trackable] = {}
        self._bare: dict[str, Buffers] = {}  # of models that have none yet
        self._beginning: bytes | None = None

    def look_for_buffers(self) -> None:
        """A loop is to begin: buffers that models have by now are tracked, too."""
        for name in [name for name, buffers in self._bare.items() if buffers]:
            self._objects[name] = self._bare.pop(name)

    def late_buffer(self) -> str | None:
        """A buffer of a model that had none when the loop began, so that none is kept."""
        found = (name for one in self._bare.values() for name in one.state_dict())
        return next(found, None)

    @property
    def names(self) -> tuple[str, ...]:
        """What is tracked, sorted: the same in every trainer."""
        return tuple(sorted(self._all()))

    def add(self, name: str, tracked: object) -> None:
        """Track an object.

        Raises:
            UsageError: the name is taken, or the object has no state that can be saved.
        """
        if name in self._objects:
            raise UsageError(f"track: {name!r} is tracked already; take another name")
        if not isinstance(tracked, Trackable):
            raise UsageError(
                f"track: expected {name} to have state_dict and load_state_dict, got "
                f"{type(tracked).__name__}"
            )
        encode_state(tracked.state_dict(), name)
        self._objects[name] = tracked

    def add_model(
        self, part: int, model: nn.Module, optimizer: torch.optim.Optimizer | None
    ) -> None:
        """Track what a shared model has beside its parameters, if it has anything."""
        buffers = Buffers(model)
        if buffers:
            self.add(self.name_buffers(part), buffers)
        else:
            self._bare[self.name_buffers(part)] = buffers
        if optimizer is not None:
            self.imply(f"settings of part {part}", Settings(optimizer.param_groups))

    def name_buffers(self, part: int) -> str:
        """What the buffers of a model are tracked as that has something in a part.

        Models may have the rows of a part together: then the later ones count.
        """
        name, count = f"buffers of part {part}", 1
        while name in self._objects or name in self._bare:
            count += 1
            name = f"buffers of part {part}, model {count}"
        return name

    def imply(self, name: str, tracked: Trackable) -> None:
        """Track an object as well, if any other is tracked."""
        self._implied[name] = tracked

    def begin(self) -> None:
        """A loop begins: as objects are now is its beginning."""
        self._beginning = self.encode()

    @property
    def averaged(self) -> tuple[str, ...]:
        """Those that are averaged over trainers when a stage ends, sorted."""
        objects = sorted(self._objects.items())
        return tuple(n for n, o in objects if isinstance(o, Buffers) and o.has_floats)

    def encode(self, averaged: Mapping[str, Any] | None = None) -> bytes:
        """The state of all objects now, but for those whose state is given."""
        tracked = self._all()
        states = {name: tracked[name].state_dict() for name in self.names}
        return encode_state({**states, **(averaged or {})}, "state")

    def encode_averaged(self) -> bytes:
        """The state of the averaged objects now."""
        states = {name: self._objects[name].state_dict() for name in self.averaged}
        return encode_state(states, "state")

    def load_averaged(self, data: bytes) -> None:
        """Let the averaged objects have a state that was kept.

        One that it lacks stays as it is, and the log says so: without rounds, a loop's end
        may have been saved with what was kept before that loop, if nobody answered in time.

        Raises:
            CheckpointCorrupt: these are no bytes of `encode`.
        """
        states = decode_state(data)
        for name in self.averaged:
            if name in states:
                self._objects[name].load_state_dict(states[name])
            else:
                _log.warning("the job has kept no %s yet: here they stay as they are", name)

    def load(self, data: bytes) -> None:
        """Let all objects have a state that was kept.

        Raises:
            CheckpointCorrupt: these are no bytes of `encode`.
        """
        states = decode_state(data)
        for name, tracked in self._all().items():
            if name in states:
                # A shared optimizer goes back with the servers, and else not at all.
                load = getattr(tracked, "load_tracked", tracked.load_state_dict)
                load(states[name])

    def begin_again(self) -> None:
        """Let all objects be as when the loop began."""
        if self._beginning is not None:
            self.load(self._beginning)

    def _all(self) -> dict[str, Trackable]:
        return {**self._implied, **self._objects} if self._objects else {}


States = dict[str, dict[str, Tensor]]  # {name of a tracked object: {buffer: value}}


def average_states(encoded: Sequence[bytes], weights: Sequence[int]) -> States:
    """The average of states of `Tracker.encode_averaged`; empty if there are none.

    ``x = sum_i n_i x_i / sum_i n_i``, weighted by records and summed in float64 in the
    order given: buffers that are equal in float32 or less stay so to the bit, and one alone
    is taken as it is. Whole numbers (BatchNorm's ``num_batches_tracked``) are the greatest
    of all; anything else is the first's.

    Raises:
        CheckpointCorrupt: these are no encoded states.
        UsageError: a buffer is of another shape in another trainer, or is not there.
    """
    states: list[Any] = [decode_state(data) for data in encoded]
    if not states:
        return {}
    for state in states[1:]:
        _check_alike(states[0], state)
    return {
        name: {
            buffer: average([state[name][buffer] for state in states], weights)
            for buffer in buffers
        }
        for name, buffers in states[0].items()
    }


def _check_alike(one: States, other: States) -> None:
    """No average makes sense of buffers that trainers have grown apart."""
    for name, buffers in one.items():
        there = other.get(name, {})
        for buffer in sorted(buffers.keys() | there.keys()):
            shapes = [
                tuple(state[buffer].shape) if buffer in state else "none"
                for state in (buffers, there)
            ]
            if shapes[0] != shapes[1]:
                raise UsageError(
                    f"the buffer {buffer!r} ({name}) has the shape {shapes[0]} in one "
                    f"trainer and {shapes[1]} in another when the loop ends, and float "
                    f"buffers are averaged then: give it one size in all trainers, or "
                    f"register it with persistent=False"
                )


def average(values: Sequence[Tensor], weights: Sequence[int]) -> Tensor:
    """One buffer of several trainers, of one shape and dtype; a new tensor."""
    first = values[0]
    if len(values) == 1:
        return first.clone()
    if first.is_floating_point():
        total = torch.zeros_like(first, dtype=torch.float64)
        for value, weight in zip(values, weights, strict=True):
            total += weight * value.double()
        return (total / sum(weights)).to(first.dtype)
    if first.is_complex() or first.dtype is torch.bool:
        return first.clone()
    return torch.stack(list(values)).amax(dim=0)


@final
class TrackedCarrying:
    """States that leave, and states that have come."""

    def __init__(self, tracker: Tracker, state: Tracking) -> None:
        self._tracker, self._state = tracker, state
        self._landings: dict[int, list[bytearray]] = {}  # {number: where a state landed}
        self._loads = self._buffers = 0
        self.moves = 0  # of the state, up to which all that has come is loaded

    def encode(self, message: KeepTracked) -> bytes:
        """The state that a message is to bring to a server."""
        if message.buffers_only:
            return self._tracker.encode_averaged()
        states = [bytes(self._landings[share.number][0]) for share in message.average]
        weights = [share.records for share in message.average]
        return self._tracker.encode(averaged=average_states(states, weights))

    def land(
        self, number: int, _message: msgspec.Struct, sizes: Sequence[int]
    ) -> list[bytearray]:
        """Where a state of this number goes."""
        places = [bytearray(size) for size in sizes]
        self._landings[number] = places
        return places

    def load(self) -> None:
        """What has come is what tracked objects are, from the next batch on."""
        state, landings = self._state, self._landings
        self.moves, self._landings = state.moves, {}
        # One that came for a timeline that was left at once is not looked at any more.
        is_news, self._loads = state.loads != self._loads, state.loads
        if is_news and state.is_known:
            if state.is_first:
                self._tracker.begin_again()
            else:
                self._tracker.load(bytes(landings[state.number][0]))
        if state.buffers != self._buffers:
            self._buffers = state.buffers
            self._tracker.load_averaged(bytes(landings[state.buffers][0]))
