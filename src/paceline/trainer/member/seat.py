"""What a session asks of its trainer: the same, whether the process is all of it or a rank.

::

    Alone       the process is the trainer
    Leader      rank 0 of several: speaks for all of them           (group_leader)
    Follower    another rank: asks its leader                       (group_follower)

Waits: as its calls say. The thread of the user's script calls.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, final

import torch
from torch import nn

from paceline.config import Pace
from paceline.messages import (
    AskRecords,
    Claimed,
    ClaimOnce,
    PartPlan,
    PartSpec,
    Records,
    Stop,
)
from paceline.trainer.engine import Scaled, Steps, Tracker, unshare_part
from paceline.trainer.evaluation import Evaluator, Work, evaluating
from paceline.trainer.loop import Changes, Stage, check_step, deliver
from paceline.trainer.member.membership import Membership
from paceline.trainer.protocol import Changed
from paceline.trainer.rows import Outlook
from paceline.trainer.rows.routing import Route
from paceline.trainer.tensors import PartNumbers


class Seat(Protocol):
    """A process's place in its trainer."""

    @property
    def size(self) -> int:
        """Processes of the trainer."""

    @property
    def pace(self) -> Pace:
        """Of the job."""

    @property
    def numbers(self) -> dict[int, PartNumbers]:
        """What is shared, by part."""

    @property
    def tracker(self) -> Tracker:
        """The user's own objects."""

    @property
    def outlook(self) -> Outlook:
        """The batches before and behind the user's step."""

    def plan(self, part: int) -> PartPlan:
        """The plan of a shared part."""

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """Fill ``values``, float32 ``(ids, dim)``, with the rows of a route."""

    def share(self, spec: PartSpec, numbers: PartNumbers) -> None:
        """Share a part; afterwards its parameters hold the servers' values."""

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """A step of several parts over the same batches; one verdict on its gradients."""

    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """Batches for this process until the stage is over for all."""

    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """The value of a stage that does not train."""

    def set_values(self, wanted: Changed) -> None:
        """Let values of parameters here be everybody's."""

    def once(self, name: str) -> bool:
        """True in exactly one process of the job."""

    def stop(self, reason: str) -> None:
        """End all loops."""

    def save(self, number: int) -> None:
        """Wait for a cut; the n-th of the script."""

    def records(self) -> int:
        """Acknowledged records of the job."""

    def trained(self) -> int:
        """The same as of the last round or push, without asking."""

    def log(self, numbers: dict[str, object]) -> None:
        """Note numbers."""

    def close(self) -> None:
        """Leave the job."""


@final
class Alone:
    """The process is the trainer."""

    size = 1

    def __init__(self, membership: Membership) -> None:
        """Speak for a member of the job."""
        self.pace = membership.pace
        self._membership, self._carrier = membership, membership.carrier
        carrier = membership.carrier
        self.numbers, self.tracker, self.outlook = (
            carrier.numbers,
            carrier.tracker,
            carrier.outlook,
        )
        self.plan, self.wait_rows = carrier.plan, carrier.wait_rows
        self._changes = Changes(carrier)
        self._lookahead = 0  # of the loop that was begun last
        self.log, self.close = membership.log, membership.close

    def share(self, spec: PartSpec, numbers: PartNumbers) -> None:
        """See `Seat`."""
        self._carrier.share(spec, numbers)
        self._changes.rest(is_end=True)

    def unshare(self, part: int) -> None:
        """End a part, with its last values in its parameters."""
        unshare_part(self._carrier, part)

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """See `Seat`; before it, what the script has changed by itself."""
        shared = self._carrier.protocol.parts
        if not self._carrier.protocol.must_join:
            check_step(self._lookahead, [shared[part] for part in parts])
        self._changes.send(parts)
        self._carrier.step_all(parts, scaled=scaled)
        self._changes.stepped(parts)
        if not any(part.window.has_delivered() for part in shared.values()):
            self._membership.calls.go_on()

    def set_values(self, wanted: Changed) -> None:
        """See `Seat`."""
        is_inside = self._membership.calls.open_call is not None
        self._changes.set_values(wanted, is_inside=is_inside)

    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """See `Seat`."""
        source, spec, _, lookahead = stage
        carrier, calls = self._carrier, self._membership.calls
        calls.num_void = carrier.num_void = 0
        self._lookahead = lookahead
        yield from deliver(carrier, self._changes, source, spec, workers, lookahead)
        calls.num_void = carrier.num_void

    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """See `Seat`."""
        evaluator = Evaluator(self._carrier, stage.source, stage.spec, step, work)
        calling = self._membership.calls.calling(stage.spec.kind)
        with self._changes.evaluating(), calling, evaluating(models):
            return evaluator.run(workers, stage.begun).value

    def once(self, name: str) -> bool:
        """See `Seat`."""
        claimed = self._membership.ask(ClaimOnce(incarnation=0, timeline=0, name=name))
        assert isinstance(claimed, Claimed)
        return claimed.mine

    def stop(self, reason: str) -> None:
        """See `Seat`."""
        self._membership.ask(Stop(incarnation=0, timeline=0, reason=reason))
        self._carrier.steps = Steps()  # it ends where the script wants

    def save(self, number: int) -> None:
        """See `Seat`."""
        self._membership.calls.check_open()
        if self._membership.calls.loop is not None:
            self._changes.send()
        self._carrier.run(self._carrier.protocol.save(number))

    def records(self) -> int:
        """See `Seat`."""
        answer = self._membership.ask(AskRecords(incarnation=0, timeline=0))
        assert isinstance(answer, Records)
        return answer.records

    def trained(self) -> int:
        """See `Seat`."""
        return self._carrier.protocol.asking.records
