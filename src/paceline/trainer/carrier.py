"""Runs the protocol's acts together with the numbers of the parts that they move.

::

    protocol  decides: push or keep, when to pull, when to join again
    gradients hold the numbers
    client    carries both
    carrier   brings them together; when the timeline is gone, drops what was open

Waits: for coordinator and servers, as the acts say. The thread of the user's loop calls.
"""

import warnings
from collections.abc import Sequence
from typing import Literal, TypeVar, final

import msgspec
import torch

from paceline.errors import PacelineError
from paceline.failpoints import failpoint
from paceline.ids import COORDINATOR
from paceline.messages import (
    AskTracked,
    KeepTracked,
    Message,
    PartPlan,
    PartSpec,
    Pull,
    Push,
    Upload,
)
from paceline.trainer.asking import Act
from paceline.trainer.client import Driver, Payload, bare
from paceline.trainer.gradients import PartNumbers
from paceline.trainer.outlook import Outlook
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.routing import Route
from paceline.trainer.rows import Wanted, attaching, row_requests
from paceline.trainer.tables import Expected, SharedTable
from paceline.trainer.tracker import Tracker
from paceline.trainer.verdicts import Batch, Stepped

T = TypeVar("T")

# What a `GradScaler` says of a step: it is not there; the gradients are unscaled; or some
# are not finite, which is its way to find a better scale, and no reason to warn.
Scaled = Literal["never", "unscaled", "not finite"]

_NOT_FINITE = "gradients are not finite: a push without them was sent"
_SCALED = (
    "gradients were accumulated and not stepped when their batches had to be pushed (at "
    "the end of an epoch, or where another trainer had stopped), and only the GradScaler "
    "knows their scale: the batches count without them; step over the last batches, too"
)


class StepWarning(UserWarning):
    """A step had no effect, or not the one that its gradients would have had."""


@final
class Carrier:
    """One trainer at work.

    Attributes:
        protocol: what it decides.
        numbers: what it moves, by part.
        tracker: the user's own objects.
        outlook: the batches before and behind the user's step.
    """

    def __init__(self, protocol: TrainerProtocol, driver: Driver) -> None:
        """Carry for a trainer that has no part yet."""
        self.protocol = protocol
        self.numbers: dict[int, PartNumbers] = {}
        self.tracker = Tracker()
        self.outlook = Outlook()
        self._expected: dict[SharedTable, Expected] = {}  # rows of the next batch
        self._coming: dict[str, Payload] = {}  # {server: its share of them}
        self._landing: list[bytearray] = []  # where their state has landed
        self._loads = 0
        self._driver = driver
        self._joined: object = None
        self._tasks_finished = 0
        self._warned: set[str] = set()

    def run(self, act: Act[T]) -> T:
        """Drive an act; the numbers of parts travel with it."""
        try:
            return self._driver.run(act, attaching(self._coming, self._attach))
        finally:
            for numbers in self.numbers.values():
                numbers.settle()
            self._drop_if_joined_again()
            self._load_tracked()

    def share(self, spec: PartSpec, numbers: PartNumbers) -> None:
        """Share a part; afterwards its parameters hold the servers' values.

        Raises:
            UsageError: the job's part of this number is another one.
        """
        self.numbers[spec.part] = numbers
        try:
            self.run(self.protocol.share(spec))
        except PacelineError:
            del self.numbers[spec.part]
            self.protocol.parts.pop(spec.part, None)
            raise

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """A step of several parts over the same batches; one verdict on its gradients.

        Args:
            parts: their numbers.
            scaled: what a `GradScaler` found.

        Raises:
            UsageError: no batch was delivered since the last step.
        """
        found = [self.numbers[part] for part in parts]
        is_refused = scaled == "not finite"
        # One part alone is looked at when it is pushed.
        if not is_refused and len(found) > 1:
            is_refused = not all(numbers.is_finite() for numbers in found)
            if is_refused:
                self._warn_once(_NOT_FINITE)
        for numbers in found:
            numbers.is_scaled = scaled != "never"
            if is_refused:
                numbers.refuse()
        for part in parts:
            self.step(part)

    def step(self, part: int, *, flush: bool = False) -> Stepped:
        """A step of one part over the batches delivered since the last one.

        Args:
            part: its number.
            flush: push, whatever the pace says, and drop the gradients that went along.

        Raises:
            UsageError: no batch was delivered since the last step.
        """
        protocol, numbers = self.protocol, self.numbers[part]
        has_batch = protocol.parts[part].window.has_delivered()
        if (flush or protocol.must_push(part)) and not protocol.must_join:
            self._load(part, flush=flush, has_batch=has_batch)
        self.outlook.look(protocol.peek())
        act = protocol.step(part, flush=flush, coming=lambda: self._ask_ahead(part))
        self._expected = {}
        stepped = self.run(act)
        self._coming.clear()
        if stepped.verdict == "kept":
            numbers.keep()
            return stepped
        numbers.clear()
        if stepped.verdict == "pushed":
            for table, rows in self._expected.items():
                table.expect(rows)
        if flush and has_batch:
            numbers.zero_grad()
        if stepped.verdict == "dropped" and not flush:
            self._warn_once(f"step dropped: {stepped.reason}")
        if protocol.tasks_finished > self._tasks_finished:
            self._tasks_finished = protocol.tasks_finished
            failpoint("trainer.after_task")
        return stepped

    def _load(self, part: int, *, flush: bool, has_batch: bool) -> None:
        """Make the gradients ready to be pushed."""
        numbers = self.numbers[part]
        if flush and has_batch and numbers.is_scaled and numbers.has_fresh():
            numbers.refuse()
            self._warn_once(_SCALED)
        if not numbers.load(self.plan(part), with_step=has_batch, only_fresh=flush):
            self._warn_once(_NOT_FINITE)

    def _ask_ahead(self, part: int) -> dict[str, Message]:
        """What to ask of each server for the next batch; runs while they apply a push."""
        found = [(table, table.foresee()) for table in self.numbers[part].tables]
        self._expected = {table: rows for table, rows in found if rows is not None}
        wanted = [Wanted(rows.route, rows.values) for rows in self._expected.values()]
        self._coming.update(row_requests(part, wanted, create=True))
        return {server: request.message for server, request in self._coming.items()}

    def flush(self) -> None:
        """Close the open window of every part."""
        for part in sorted(self.numbers):
            self.step(part, flush=True)

    def fail_task(self, found: Batch, error: str) -> None:
        """A batch could not be read: flush what came before it, give up its task."""
        self.protocol.take_back(found)
        self.flush()
        self.run(self.protocol.fail_task(found, error))

    def leave_loop(self) -> None:
        """Push what was stepped, drop what was not, hand leases back."""
        for part, numbers in self.numbers.items():
            numbers.load(self.plan(part), with_step=False)
        self.run(self.protocol.leave_loop())
        for numbers in self.numbers.values():
            numbers.zero_unspent()
            numbers.clear()

    # ------------------------------------------------------------ rows

    def plan(self, part: int) -> PartPlan:
        """See `RowReader.plan`."""
        plan = self.protocol.parts[part].plan
        assert plan is not None
        return plan

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """See `RowReader.wait_rows`: one question to every server that has any of them."""
        requests = row_requests(part, [Wanted(route, values)], create=create)
        asked = {server: request.message for server, request in requests.items()}
        if asked:
            self._driver.run(self.protocol.read(asked), attaching(requests, bare))

    # ------------------------------------------------------------ within

    def _attach(self, role: str, message: Message) -> Payload:
        if isinstance(message, KeepTracked):
            return Payload(message, [self.tracker.encode()])
        if isinstance(message, AskTracked):
            return Payload(message, landing=self._land_tracked)
        if role == COORDINATOR or not isinstance(message, Upload | Pull | Push):
            return Payload(message)
        plan = self.plan(message.part)
        return self.numbers[message.part].attach(role, message, plan)

    def _land_tracked(
        self, _message: msgspec.Struct, sizes: Sequence[int]
    ) -> list[bytearray]:
        places = [bytearray(size) for size in sizes]
        self._landing = places
        return places

    def _load_tracked(self) -> None:
        """What has come is what tracked objects are, from the next batch on."""
        state = self.protocol.tracked
        if state.loads == self._loads:
            return
        self._loads = state.loads
        if state.number == 0:
            self.tracker.begin_again()
        else:
            self.tracker.load(bytes(self._landing[0]))

    def _drop_if_joined_again(self) -> None:
        """What was computed before a rejoin belongs to batches that run again."""
        if self.protocol.joined is self._joined:
            return
        if self._joined is not None:
            for numbers in self.numbers.values():
                numbers.zero_grad()
                numbers.clear()
        self._joined = self.protocol.joined

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, StepWarning, stacklevel=4)
