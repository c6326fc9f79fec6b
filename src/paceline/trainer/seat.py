"""What a session asks of its trainer: the same, whether the process is all of it or a rank.

::

    Seat
      Follower      rank 1, 2 ... of several: asks its leader
      MemberSeat    the process is the job's member
        Alone       it is the trainer
        Leader      rank 0 of several: speaks for all of them

Waits: as its calls say. The thread of the user's script calls.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, final

from torch import nn

from paceline.config import Pace
from paceline.errors import UsageError
from paceline.messages.shared import PartPlan, PartSpec
from paceline.messages.trainer import AskRecords, Records, Stop
from paceline.messages.values import Claimed, ClaimOnce
from paceline.trainer.engine import Calls, Scaled, Steps, Tracker, unshare_part
from paceline.trainer.evaluator import Evaluator, Work, evaluating
from paceline.trainer.loop import Changes, Stage, check_step, deliver
from paceline.trainer.membership import Had, Membership
from paceline.trainer.model import changed_by_script, let_rest
from paceline.trainer.peers import NO_LINK, PeerEvents
from paceline.trainer.protocol import Changed
from paceline.trainer.rows import Prefetcher, RowReader
from paceline.trainer.tensors import ModelTensors, PartTensors, TableTensors

_NOT_YET = "cannot do that yet: use --ranks-per-trainer 1"


class Presence(Protocol):
    """A process as whoever has launched it ends it; any thread may."""

    @property
    def calls(self) -> Calls:
        """The calls that are under way."""

    @property
    def must_begin_again(self) -> str | None:
        """Why the script must be started again; None if it need not."""

    def had(self) -> Had | None:
        """The batches it has had; None: another process of the trainer tells of them."""

    def leave_soon(self, reason: str) -> None:
        """End the open call at its next batch, by `Preempted`."""

    def abandon(self) -> None:
        """Give up what is held, whatever the script does."""

    def is_idle(self) -> bool:
        """Whether nothing of the job is held here: nothing is open, nothing is asked."""


class Seat(ABC):
    """A process's place in its trainer.

    Attributes:
        num_trainers: of the job, when it came.
        numbers: what is shared of models, by part.
        parts: all that is shared.
        tracker: the user's own objects.
        outlook: the batches before and behind the user's step.
        reader: who fetches rows.
    """

    trainer: str
    size: int
    num_trainers: int
    pace: Pace
    numbers: dict[int, ModelTensors]
    parts: Mapping[int, PartTensors]
    tracker: Tracker
    outlook: Prefetcher
    reader: RowReader
    membership: Presence

    def alone(self, call: str, why: str = _NOT_YET) -> "Alone":
        """This process, for a call of the user's that needs one that is all of its trainer.

        ``why``: what a trainer of several processes lacks, as the error goes on.

        Raises:
            UsageError: it is one of several.
        """
        raise UsageError(f"{call}: a trainer of {self.size} processes {why}")

    @property
    def events(self) -> PeerEvents:
        """Of other trainers.

        Raises:
            UsageError: this process has no link to any.
        """
        raise UsageError(NO_LINK)

    @abstractmethod
    def plan(self, part: int) -> PartPlan:
        """The plan of a shared part."""

    @abstractmethod
    def share(self, spec: PartSpec, numbers: ModelTensors) -> None:
        """Share a part; afterwards its parameters hold the servers' values."""

    @abstractmethod
    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """A step of several parts over the same batches; one verdict on its gradients."""

    @abstractmethod
    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """Batches for this process until the stage is over for all."""

    @abstractmethod
    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """The value of a stage that does not train."""

    @abstractmethod
    def once(self, name: str) -> bool:
        """True in exactly one process of the job."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """End all loops."""

    @abstractmethod
    def save(self, number: int) -> None:
        """Wait for a cut; the n-th of the script."""

    @abstractmethod
    def records(self) -> int:
        """Acknowledged records of the job."""

    @abstractmethod
    def trainers(self) -> int:
        """How many trainers the job has now, or waits for before it begins."""

    @abstractmethod
    def trained(self) -> int:
        """The same as of the last round or push, without asking."""

    @abstractmethod
    def log(self, numbers: dict[str, object]) -> None:
        """Note numbers."""

    @abstractmethod
    def close(self) -> None:
        """Leave the job."""


class MemberSeat(Seat, ABC):
    """The process is the job's member."""

    membership: Membership

    def __init__(self, membership: Membership, size: int) -> None:
        self.membership, self.size = membership, size
        self._carrier = carrier = membership.carrier
        self.trainer, self.pace = carrier.protocol.trainer, membership.pace
        self.num_trainers = membership.num_trainers
        self.numbers, self.parts = carrier.numbers, carrier.parts
        self.tracker = carrier.tracker
        self.outlook = carrier.outlook

    @property
    def events(self) -> PeerEvents:
        """See `Seat`."""
        return self.membership.events

    def plan(self, part: int) -> PartPlan:
        """See `Seat`."""
        return self._carrier.plan(part)

    def once(self, name: str) -> bool:
        """See `Seat`."""
        claimed = self.membership.ask(ClaimOnce(incarnation=0, timeline=0, name=name))
        assert isinstance(claimed, Claimed)
        return claimed.mine

    def stop(self, reason: str) -> None:
        """See `Seat`."""
        self.membership.ask(Stop(incarnation=0, timeline=0, reason=reason))
        self._carrier.steps = Steps()  # it ends where the script wants

    def records(self) -> int:
        """See `Seat`."""
        return self._counted().records

    def trainers(self) -> int:
        """See `Seat`."""
        return self._counted().trainers

    def _counted(self) -> Records:
        answer = self.membership.ask(AskRecords(incarnation=0, timeline=0))
        assert isinstance(answer, Records)
        return answer

    def trained(self) -> int:
        """See `Seat`."""
        return self._carrier.protocol.asking.records

    def log(self, numbers: dict[str, object]) -> None:
        """See `Seat`."""
        self.membership.log(numbers)

    def close(self) -> None:
        """See `Seat`."""
        self.membership.close()


@final
class Alone(MemberSeat):
    """The process is the trainer."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(membership, 1)
        self.reader = membership.carrier
        self._changes = Changes(self._carrier)
        self._lookahead = 0  # of the loop that was begun last

    def alone(self, call: str, why: str = "") -> "Alone":
        """See `Seat`: it is."""
        del call, why
        return self

    def share(self, spec: PartSpec, numbers: ModelTensors | TableTensors) -> None:
        """See `Seat`; a table of the user's own, too."""
        self._carrier.share(spec, numbers)
        let_rest(self.numbers.values(), is_end=True)

    def unshare(self, part: int) -> None:
        """End a part, with its last values in its parameters."""
        unshare_part(self._carrier, part)

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """See `Seat`; before it, what the script has changed by itself."""
        carrier, protocol, numbers = self._carrier, self._carrier.protocol, self.numbers
        if not protocol.must_join and (self._lookahead or not carrier.steps.is_told):
            self._check_step(parts)
        if changed := changed_by_script(numbers, parts):
            self._changes.send(changed)
        carrier.step_all(parts, scaled=scaled)
        for part in parts:
            numbers[part].watched.stepped()
        let_rest(numbers.values(), is_end=protocol.peek() is None)  # perhaps the loop's
        calls = self.membership.calls
        if calls.spent is not None and not any(
            part.window.has_delivered() for part in protocol.parts.values()
        ):
            calls.go_on()

    def _check_step(self, parts: Sequence[int]) -> None:
        if self._lookahead:
            shared = self._carrier.protocol.parts
            check_step(self._lookahead, [shared[part] for part in parts])
        elif (why := self._carrier.steps.why_ahead()) is not None:
            self._carrier.warn_once(f"step(): {why}")

    def set_values(self, wanted: Changed) -> None:
        """Let values of parameters here be everybody's."""
        is_inside = self.membership.calls.open_call is not None
        self._changes.set_values(wanted, is_inside=is_inside)

    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """See `Seat`."""
        calls, self._lookahead = self.membership.calls, stage.lookahead
        calls.num_void = 0
        return deliver(self._carrier, self._changes, calls, stage, workers)

    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """See `Seat`."""
        evaluator = Evaluator(self._carrier, stage, step, work)
        calling = self.membership.calls.calling(stage.spec.kind)
        with self._changes.evaluating(), calling, evaluating(models):
            return evaluator.run(workers)

    def save(self, number: int) -> None:
        """See `Seat`."""
        self.membership.calls.check_open()
        is_inside = self.membership.calls.loop is not None
        if is_inside and (changed := changed_by_script(self.numbers)):
            self._changes.send(changed)
        self._carrier.run(self._carrier.protocol.save(number))
