"""Runs the protocol's acts together with the numbers of the parts that they move.

When the timeline is gone, what was open is dropped.

Waits: for coordinator and servers, as the acts say. The thread of the user's loop calls.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeVar, final

import torch

from paceline.errors import PacelineError
from paceline.failpoints import failpoint
from paceline.ids import COORDINATOR
from paceline.messages.data import (
    AskTracked,
    KeepFrozen,
    KeepTracked,
    Pull,
    PullRows,
    Push,
    Upload,
)
from paceline.messages.peers import AskValues
from paceline.messages.shared import Message, PartPlan, PartSpec
from paceline.messages.trainer import Joined
from paceline.messages.values import SetValues
from paceline.params.codecs import Codec, codec_of, value_codec
from paceline.trainer.acts import Act
from paceline.trainer.client import Driver, Payload, bare
from paceline.trainer.engine.tracked_objects import TrackedCarrying, Tracker
from paceline.trainer.engine.unstepped import Steps
from paceline.trainer.protocol import TrainerProtocol
from paceline.trainer.rows import (
    EmbeddingRows,
    Expected,
    Prefetcher,
    Requests,
    WantedRows,
    attaching,
    pushed_with,
    row_requests,
)
from paceline.trainer.rows.routing import Route
from paceline.trainer.tensors import (
    WHOLE_STEP,
    GatherChoice,
    Loaded,
    ModelTensors,
    PartTensors,
    TableTensors,
    has_lost,
)
from paceline.trainer.verdicts import AfterStep, Batch, Flush, Leaving, Over, Stepped

T = TypeVar("T")
Asked = dict[EmbeddingRows, Expected]
Own = Callable[[str, Message], Payload | None]  # (role, message) -> with its numbers
# What a `GradScaler` says of a step: it is not there; the gradients are unscaled; or some
# are not finite, which is its way to find a better scale, and no reason to warn.
Scaled = Literal["never", "unscaled", "not finite"]

_WITH_NUMBERS = (Push, Pull, Upload, SetValues, KeepFrozen)
_NOT_FINITE = "gradients are not finite: a push without them was sent"
_TOO_LARGE = (
    "gradients are not finite, or beyond what {codec} can carry ({limit:g}): a push "
    "without them was sent; bf16 has the range of float32"
)
_SCALED = (
    "gradients were accumulated and not stepped when their batches had to be pushed (at "
    "the end of an epoch, or where another trainer had stopped), and only the GradScaler "
    "knows their scale: the batches count without them; step over the last batches, too"
)


class StepWarning(UserWarning):
    """A step had no effect, or not the one that its gradients would have had."""


@final
class TrainerEngine:
    """One trainer at work.

    Attributes:
        numbers: what it moves of models, by part.
        tables: of tables of the user's own, by part.
        parts: of both.
    """

    def __init__(self, protocol: TrainerProtocol, driver: Driver) -> None:
        self.protocol = protocol
        self.numbers: dict[int, ModelTensors] = {}
        self.tables: dict[int, TableTensors] = {}
        self.parts: dict[int, PartTensors] = {}
        self.tracker = Tracker()
        self.outlook = Prefetcher()  # the batches before and behind the user's step
        self.steps = Steps()  # of the loop that is open
        # Is told what became of every step of a part; None: nobody asks.
        self.after_step: Callable[[AfterStep], None] | None = None
        # Lets another process of the trainer carry a question to a server; None: it is
        # carried here.
        self.entrust: Callable[[str, Message], Payload | None] | None = None
        # Where values of other trainers go.
        self.attach_values: Callable[[str, AskValues], Payload] = bare
        self._asked: dict[int, Asked] = {}  # {part: rows to come}
        self._coming: Requests = {}  # for them
        self._tracked = TrackedCarrying(self.tracker, protocol.tracked)
        self._driver = driver
        self.stopwatch = driver.stopwatch
        self._joined: Joined | None = None
        self._tasks_finished = 0
        self._warned: set[str] = set()

    def run(self, act: Act[T], own: Own | None = None) -> T:
        """Drive an act; the numbers of parts travel with it, and those that ``own`` has."""
        attach = self._attach if own is None else partial(self._attach_own, own)
        try:
            return self._driver.run(act, attach)
        finally:
            self._settle()

    def next_batch(self) -> Batch | Flush | Over | Leaving:
        """See `TrainerProtocol.next_batch`; most batches need no act."""
        self._driver.check_process()
        found = self.protocol.at_hand()
        return self.run(self.protocol.next_batch()) if found is None else found

    def ask(self, message: Message) -> Message:
        """Ask the coordinator anything, at any moment: no value that has come is shown."""
        joined = self.protocol.joined
        reply = self._driver.run(self.protocol.ask(message), self._attach)
        if self.protocol.joined is not joined:
            self._settle()
        return reply

    def _settle(self) -> None:
        """What has come is what parameters, rows and tracked objects are from now on."""
        protocol = self.protocol
        for part, numbers in self.numbers.items():
            if numbers.values.has_landed and part not in protocol.stepping.flights:
                numbers.settle(mixes=protocol.joined is self._joined)
        if self._asked:
            self._receive_rows()
        if protocol.joined is not self._joined:
            self._drop_if_joined_again()
        if protocol.tracked.moves != self._tracked.moves:
            self._tracked.load()

    def share(self, spec: PartSpec, numbers: ModelTensors | TableTensors) -> None:
        """Share a part; afterwards its parameters hold the servers' values.

        Raises:
            UsageError: the job's part of this number is another one.
        """
        self.parts[spec.part], strategy, early = numbers, None, None
        if isinstance(numbers, ModelTensors):
            self.numbers[spec.part] = numbers
            strategy, early = numbers.strategy, numbers.early
        else:
            self.tables[spec.part] = numbers
        try:
            self.run(self.protocol.share(spec, strategy))
        except PacelineError:
            self.forget(spec.part)
            raise
        numbers.take_pace(self.plan(spec.part).spec)
        if early is not None:
            early.begin(self.protocol, self._driver, spec.part)

    def forget(self, part: int) -> None:
        """A part is not shared, or no longer."""
        for known in (self.parts, self.numbers, self.tables, self.protocol.parts):
            known.pop(part, None)

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """A step of several parts over the same batches; one verdict on its gradients.

        Raises:
            UsageError: no batch was delivered since the last step, or a gradient was
                changed after it had been sent.
        """
        self.steps.parts.update(parts)
        found = [self.numbers[part] for part in parts]
        is_refused = scaled == "not finite"
        for numbers in found:
            if numbers.early is not None and not is_refused:
                numbers.early.check()
        # One part alone is looked at when it is pushed.
        if not is_refused and len(found) > 1:
            is_refused = not all(numbers.is_finite() for numbers in found)
            if is_refused:
                self.warn_once(self._why_refused(parts))
        for numbers in found:
            numbers.gradients.begin_step(is_scaled=scaled != "never")
            if is_refused:
                numbers.gradients.refuse()
        for part in self.protocol.stepping.in_order(parts):
            self.step(part)

    def step(self, part: int, *, flush: bool = False) -> Stepped:
        """A step of one part over the batches delivered since the last one.

        With ``flush`` it pushes, whatever the pace says, and drops the gradients.

        Raises:
            UsageError: no batch was delivered since the last step.
        """
        protocol, numbers = self.protocol, self.parts[part]
        has_batch = protocol.parts[part].window.has_delivered()
        is_refused = numbers.gradients.is_refused
        self._land(part, at_once=flush)
        load = partial(self._load, part, flush=flush, has_batch=has_batch)
        looks_ahead = numbers.tables or self.outlook.keeps
        coming = partial(self._ask_ahead, part) if looks_ahead else None
        stepped = self.run(protocol.step(part, flush=flush, load=load, coming=coming))
        is_kept = stepped.verdict == "kept"
        zero_grad = flush and has_batch and not is_kept
        if is_kept:
            numbers.keep()
        else:
            numbers.clear(is_flying=part in protocol.stepping.flights)
        if zero_grad:
            numbers.gradients.zero()
        if stepped.verdict == "dropped" and not flush:
            self.warn_once(f"step dropped: {stepped.reason}")
        if not is_kept and protocol.stepping.tasks_finished > self._tasks_finished:
            self._tasks_finished = protocol.stepping.tasks_finished
            failpoint("trainer.after_task")
        if self.after_step is not None:
            told = AfterStep(part, is_kept, zero_grad=zero_grad, is_refused=is_refused)
            self.after_step(told)
        return stepped

    def load(
        self, part: int, choice: GatherChoice = WHOLE_STEP, *, is_decided: bool = False
    ) -> Loaded:
        """Hold ready what a part is to push; if to no effect, its next push says why."""
        loaded = self.parts[part].load(self.plan(part), choice, is_decided=is_decided)
        self.protocol.parts[part].refused = loaded.refusal
        return loaded

    def _load(self, part: int, *, flush: bool, has_batch: bool) -> None:
        """Make gradients ready to be pushed."""
        numbers = self.parts[part]
        if flush and has_batch and numbers.gradients.has_unscaled():
            numbers.gradients.refuse()
            self.warn_once(_SCALED)
        is_decided = self.protocol.parts[part].fate == "effect"
        choice = GatherChoice(has_batch, only_fresh=flush)
        if not self.load(part, choice, is_decided=is_decided).is_finite:
            self.warn_once(self._why_refused([part]))

    def _why_refused(self, parts: Sequence[int]) -> str:
        for part in parts:
            codec = codec_of(self.plan(part))
            if codec is not None and codec.limit < math.inf:
                name = self.protocol.parts[part].spec.pace.codec
                return _TOO_LARGE.format(codec=name, limit=codec.limit)
        return _NOT_FINITE

    def _land(self, part: int, *, at_once: bool = True) -> None:
        """Wait for the part's push that is on its way, or as far as the pace wants."""
        if part in self.protocol.stepping.flights:
            self.run(self.protocol.land(part, at_once=at_once))

    def _ask_ahead(self, part: int) -> dict[str, Message]:
        """What to ask of each server for a batch to come.

        Who waits for his push runs this meanwhile: the data are read here, too.
        """
        protocol = self.protocol
        ahead = int(protocol.parts[part].rules.pushes_overlap)
        coming = [protocol.peek(number) for number in range(ahead + 1)]
        self.outlook.look([batch for batch in coming if batch is not None])
        numbers = self.numbers.get(part)
        if numbers is None or not numbers.tables:
            return {}
        found = [(table, table.foresee(ahead)) for table in numbers.tables]
        asked = {table: rows for table, rows in found if rows is not None}
        wanted = [WantedRows(rows.route, rows.values) for rows in asked.values()]
        requests = row_requests(part, wanted, create=True, codec=self._value_codec(part))
        self._asked[part] = asked
        self._coming |= requests
        return {server: request.message for (server, _), request in requests.items()}

    def _receive_rows(self) -> None:
        """What was asked for behind a push that has landed is here, or will never be."""
        for part in list(self._asked):
            if part in self.protocol.stepping.flights:
                continue
            for table, rows in self._asked.pop(part).items():
                if self.protocol.must_join or self.protocol.parts[part].is_late:
                    table.expect_nothing()
                else:
                    table.expect(
                        rows, most=1 + self.protocol.parts[part].rules.pushes_overlap
                    )
            self._coming = {key: one for key, one in self._coming.items() if key[1] != part}

    def flush(self) -> None:
        """Close the open window of every part."""
        for part in self.protocol.stepping.in_order(sorted(self.parts)):
            self.step(part, flush=True)

    def fail_task(self, found: Batch, error: str) -> None:
        """A batch could not be read: flush what came before it, give up its task."""
        self.protocol.take_back(found)
        self.flush()
        self.run(self.protocol.fail_task(found, error))

    def leave_loop(self) -> None:
        """Push what was stepped, drop what was not, hand leases back."""
        for part in self.parts:
            self._land(part)
            self.load(part, GatherChoice(with_step=False))
        self.run(self.protocol.leave_loop())
        for numbers in self.parts.values():
            numbers.gradients.zero(only_unspent=True)
            numbers.clear()

    def plan(self, part: int) -> PartPlan:
        """See `RowReader.plan`."""
        plan = self.protocol.parts[part].plan
        assert plan is not None
        return plan

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """See `RowReader.wait_rows`: one question to every server that has any of them."""
        wanted, codec = [WantedRows(route, values)], self._value_codec(part)
        requests = row_requests(part, wanted, create=create, codec=codec)
        asked = {server: request.message for (server, _), request in requests.items()}
        if asked:
            self._driver.run(self.protocol.read(asked), attaching(requests))

    def _value_codec(self, part: int) -> Codec | None:
        plan = self.plan(part)
        return None if plan.spec.pace.codec is None else value_codec(codec_of(plan))

    def _attach_own(self, own: Own, role: str, message: Message) -> Payload:
        return own(role, message) or self._attach(role, message)

    def _attach(self, role: str, message: Message) -> Payload:
        if role == COORDINATOR:
            return Payload(message)
        if isinstance(message, _WITH_NUMBERS):
            return self._with_numbers(role, message)
        if isinstance(message, PullRows):
            return self._coming[role, message.part]._replace(message=message)
        if isinstance(message, AskValues):
            return self.attach_values(role, message)
        if isinstance(message, KeepTracked):
            return Payload(message, [self._tracked.encode(message)])
        if isinstance(message, AskTracked):
            return Payload(message, landing=partial(self._tracked.land, message.number))
        return Payload(message)

    def _with_numbers(
        self, role: str, message: Upload | SetValues | KeepFrozen | Pull | Push
    ) -> Payload:
        if isinstance(message, Push) and message.is_void:
            return self._with_rows(role, Payload(message))
        if self.entrust is not None and (entrusted := self.entrust(role, message)):
            return entrusted
        plan = self.plan(message.part)
        payload = self.parts[message.part].attach(role, message, plan)
        return self._with_rows(role, payload)

    def _with_rows(self, role: str, payload: Payload) -> Payload:
        """A question, with what is asked behind it if it is a push."""
        message = payload.message
        if isinstance(message, Push) and message.behind is not None:
            return pushed_with(payload, self._coming[role, message.part])
        return payload

    def _drop_if_joined_again(self) -> None:
        """What was computed before a rejoin belongs to batches that run again."""
        joined, before = self.protocol.joined, self._joined
        if before is not None and joined is not None:
            is_lost = has_lost(before, joined)
            for part, numbers in self.parts.items():
                numbers.gradients.zero()
                numbers.clear()
                numbers.take_pace(self.plan(part).spec, is_lost=is_lost)
            for model in self.numbers.values():
                for table in model.tables:
                    table.expect_nothing()
        self._joined = joined

    def warn_once(self, text: str) -> None:
        """Warn of something, unless it was said before."""
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, StepWarning, stacklevel=4)
