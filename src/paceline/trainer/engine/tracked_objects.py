"""The user's own objects beside model and optimizer: schedulers, EMA, buffers of a model.

They live in every trainer and are not shared. One trainer's state goes into each cut; who
enters the job, or returns to a cut, loads it.

Waits for nothing. The thread of the user's loop calls.
"""

from collections.abc import Mapping
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import nn

from paceline.errors import UsageError
from paceline.trainer.encoding import decode_state, encode_state
from paceline.trainer.model import Buffers


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
        """Hold an optimizer's own groups."""
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
        """Track nothing."""
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
        """The first loop begins: as objects are now is their beginning."""
        if self._beginning is None:
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

        Raises:
            CheckpointCorrupt: these are no bytes of `encode`.
        """
        states = decode_state(data)
        for name in self.averaged:
            self._objects[name].load_state_dict(states[name])

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
        """Let all objects be as when the first loop began."""
        if self._beginning is not None:
            self.load(self._beginning)

    def _all(self) -> dict[str, Trackable]:
        return {**self._implied, **self._objects} if self._objects else {}
