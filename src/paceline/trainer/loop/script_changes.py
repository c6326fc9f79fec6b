"""What the script has changed by itself reaches the servers, or is refused by name.

By itself where there is one trainer, whose word is enough; an evaluation is of the values
that are here, and sends nothing. Where trainers take steps of their own
(`paceline.trainer.tensors.local_steps`), a change is part of what they push, and no affair
of this.

Waits: as `paceline.trainer.protocol.script_values` says. The thread of the user's loop
calls.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import final

import torch
from torch import nn

from paceline.errors import PacelineError, UsageError
from paceline.messages.values import ValuesClaimed
from paceline.trainer.engine import TrainerEngine
from paceline.trainer.model import changed_by_script, let_rest
from paceline.trainer.protocol import Changed, set_between, set_within
from paceline.trainer.tensors import ModelTensors, PartTensors

_SEVERAL = (
    "{names} changed outside of step(), and the job has {trainers} trainers: the next pull "
    "would overwrite it. Make the change before session.share, or call "
    "session.set_values(model) after it, at the same place in the script of every trainer, "
    "outside of loops. Within a loop it needs a job of one trainer"
)
_LACKS = (
    "{names} changed outside of step(), on values that lack a step which the servers have "
    "(the pace is {pace}): sent, they would undo it. Use a pace that pulls after every "
    "push and waits for it (sync, async), or call session.set_values(model) after the "
    "change, which replaces what the servers have"
)
_OVERLOOKED = (
    "{name!r} was changed in a loop by way of .data, which torch does not count: not all "
    "values are looked at in every step, and such changes may have been overwritten before "
    "this one; change the parameter itself, under torch.no_grad()"
)
_PROCESSES = (
    "{names} changed outside of step(), in a trainer of {size} processes: the leader's "
    "values would overwrite it. Make the change before session.share, or use "
    "--ranks-per-trainer 1"
)
_INSIDE = (
    "set_values: in a loop it needs a job of one trainer, and there are {trainers}: call "
    "it between two loops, at the same place in the script of every trainer"
)


@final
class Changes:
    """The changes of a script in a trainer of one process."""

    def __init__(self, carrier: TrainerEngine) -> None:
        self._carrier, self._protocol = carrier, carrier.protocol
        self._num_calls = 0
        self._refused: str | None = None  # what the script was told last
        self._saves = itertools.count(1)

    def begin(self, stage: int) -> None:
        """A loop is about to begin: what has changed is everybody's.

        Raises:
            UsageError: it cannot be, or a model is not what was shared; and why.
        """
        check_models(self._carrier.parts)
        if changed := changed_by_script(self._carrier.numbers):
            acts = set_between(self._protocol, changed, self._saves, call=0, stage=stage)
            claimed = self._carrier.run(acts)
            if claimed.verdict == "several":
                raise UsageError(self._why_several(changed, claimed))
            self._settled(changed)
        for numbers in self._carrier.numbers.values():
            numbers.watched.begin()

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """An evaluation is of what is here: averaged weights, say, that go again.

        Servers keep what they have: what is here may be no more than borrowed.

        Raises:
            UsageError: something has changed, and there are others, who have not.
        """
        check_models(self._carrier.parts)
        if changed := changed_by_script(self._carrier.numbers):
            found = self._carrier.run(set_within(self._protocol, changed, is_sent=False))
            if isinstance(found, ValuesClaimed) and found.verdict == "several":
                raise UsageError(self._why_several(changed, found))
        for part, places in changed.items():
            self._carrier.numbers[part].watched.borrow(places)
        try:
            yield
        finally:
            for part in changed:
                self._carrier.numbers[part].watched.borrow(())
            let_rest(self._carrier.numbers.values(), is_end=True)

    def send(self, changed: Changed) -> None:
        """A step, or the next batch, is about to come, and this has changed.

        Raises:
            UsageError: it cannot be everybody's.
        """
        numbers, protocol = self._carrier.numbers, self._protocol
        for part in changed:
            if (name := numbers[part].watched.overlooked) is not None:
                self._carrier.warn_once(_OVERLOOKED.format(name=name))
        if protocol.must_join:
            return
        lacking = self._lacking(changed)
        found = self._carrier.run(set_within(protocol, changed, is_sent=not lacking))
        self._refused = None
        if isinstance(found, ValuesClaimed) and found.verdict == "several":
            self._refused = self._why_several(changed, found)
        elif isinstance(found, ValuesClaimed) and lacking:
            pace = protocol.parts[min(lacking)].spec.pace
            self._refused = _LACKS.format(names=self._named(lacking), pace=pace)
        if self._refused is not None:
            raise UsageError(self._refused)
        self._settled(changed)

    def leave(self) -> str | None:
        """The loop is left early: what can be sent is; else why not, if it is news."""
        known = self._refused
        try:
            check_models(self._carrier.parts)
        except (
            UsageError
        ):  # the next step or loop says so; after the last it is the script's own
            return None
        try:
            if changed := changed_by_script(self._carrier.numbers):
                self.send(changed)
        except UsageError as error:
            return None if str(error) == known else str(error)
        except PacelineError:  # why it is left says more
            return None
        return None

    def set_values(self, wanted: Changed, *, is_inside: bool) -> None:
        """`Session.set_values`; ``is_inside``: a loop is open.

        Raises:
            UsageError: in a loop, and there are several trainers.
        """
        if is_inside:
            self._set_inside(wanted)
            return
        self._num_calls += 1
        call = self._num_calls
        acts = set_between(self._protocol, wanted, self._saves, call=call, stage=None)
        self._carrier.run(acts)
        self._settled(wanted)
        let_rest(self._carrier.numbers.values(), is_end=True)

    def _set_inside(self, wanted: Changed) -> None:
        for part in wanted:
            if part in self._protocol.stepping.flights:
                self._land_beside(part)
        found = self._carrier.run(set_within(self._protocol, wanted))
        if isinstance(found, ValuesClaimed) and found.verdict == "several":
            raise UsageError(_INSIDE.format(trainers=found.trainers))
        self._settled(wanted)
        let_rest(self._carrier.numbers.values())

    def _land_beside(self, part: int) -> None:
        """Wait for a push that is on its way; what comes with it is not what is wanted."""
        parameters = self._carrier.numbers[part].parameters
        wanted = [one.detach().clone() for one in parameters]
        self._carrier.run(self._protocol.land(part))
        with torch.no_grad():
            for one, value in zip(parameters, wanted, strict=True):
                one.copy_(value)

    def _lacking(self, changed: Changed) -> Changed:
        protocol = self._protocol
        return {
            part: found
            for part, found in changed.items()
            if part in protocol.stepping.flights or protocol.parts[part].lacks_own
        }

    def _settled(self, changed: Changed) -> None:
        for part in changed:
            self._carrier.numbers[part].watched.settled()

    def _why_several(self, changed: Changed, claimed: ValuesClaimed) -> str:
        names = self._named(changed)
        return _SEVERAL.format(names=names, trainers=claimed.trainers)

    def _named(self, changed: Changed) -> str:
        numbers = self._carrier.numbers
        both = [(numbers[p].watched.names, sorted(changed[p])) for p in sorted(changed)]
        return _named([names[index] for names, found in both for index in found])


def to_be_set(model: nn.Module, numbers: Mapping[int, ModelTensors]) -> Changed:
    """What `Session.set_values` is to set of a model.

    Raises:
        UsageError: nothing of it lives on servers, or trainers move it themselves.
    """
    own, wanted = set(model.parameters()), {}
    for part, one in numbers.items():
        found = [i for i, parameter in enumerate(one.parameters) if parameter in own]
        if found and one.steps.deltas is not None:
            raise UsageError(
                f"set_values: {one.watched.names[found[0]]!r} is moved by each "
                f"trainer itself ({one.pace}), and a change is part of what it "
                "pushes: make it before session.share"
            )
        if found:
            wanted[part] = frozenset(found)
    if not wanted:
        raise UsageError(
            "set_values: no parameter of the model lives on servers: share it first, "
            "with a pace other than allreduce"
        )
    return wanted


def check_models(parts: Mapping[int, PartTensors]) -> None:
    """A loop begins: every model is what was shared.

    Raises:
        UsageError: one is not, and why.
    """
    for one in parts.values():
        for model in one.models:
            model.check_loop()


def check_process(numbers: Mapping[int, ModelTensors], size: int) -> None:
    """In a trainer of several processes: nothing has been changed in this one.

    Raises:
        UsageError: something has, and its name.
    """
    for one in numbers.values():
        if changed := one.watched.changed():
            names = _named([one.watched.names[index] for index in changed])
            raise UsageError(_PROCESSES.format(names=names, size=size))


def process_rests(numbers: Mapping[int, ModelTensors]) -> None:
    """What a rank has now is what its leader has, and the user's hands are next."""
    for one in numbers.values():
        one.watched.stepped()
        one.watched.rest()


def _named(names: list[str]) -> str:
    more = f" and {len(names) - 1} more parameters were" if len(names) > 1 else " was"
    return f"{names[0]!r}{more}"
