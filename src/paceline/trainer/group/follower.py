"""Rank 1, 2 ... of a trainer: everything of the job is asked of its leader, rank 0.

Its model, data and gradients are its own; parameters, plans and the right to a batch come
from the leader.

Waits: for the leader, without a bound: it answers when its own script has come as far, and
when it dies the kernel ends this process. The thread of the user's script calls.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import nn

from paceline import errors
from paceline.errors import Preempted, describe_error
from paceline.messages.shared import PartPlan, PartSpec
from paceline.timing import Clock
from paceline.trainer.client import Courier
from paceline.trainer.engine import Calls, Scaled, Tracker
from paceline.trainer.evaluator import Work
from paceline.trainer.group import wire as wire
from paceline.trainer.group.delegated_requests import Carrying
from paceline.trainer.group.follower_orders import Following
from paceline.trainer.loop import (
    Stage,
    TaskReader,
    check_models,
    check_process,
    process_rests,
)
from paceline.trainer.membership import Logbook
from paceline.trainer.rows import Prefetcher
from paceline.trainer.rows.routing import Route
from paceline.trainer.seat import Seat
from paceline.trainer.tensors import ModelTensors
from paceline.trainer.verdicts import Batch
from paceline.transport.streams import Received

_log = logging.getLogger("paceline.trainer")


@final
class Follower(Seat):
    """One rank that does not lead."""

    must_begin_again: str | None = None

    def __init__(
        self, place: wire.GroupPlace, courier: Courier, clock: Clock, timeout_s: float
    ) -> None:
        """Meet the other ranks.

        Raises:
            PeerLost: one did not come.
        """
        self.trainer, self.size, self.pace = place.role, place.size, place.pace
        self.num_trainers = 1  # its leader knows how many, and says what follows from it
        self.numbers: dict[int, ModelTensors] = {}
        self.parts = self.numbers
        self.tracker, self.reader = Tracker(), self
        self.outlook = Prefetcher()  # it knows of no batch to come
        self.membership = self
        self.calls = Calls(self, self._send_log, lambda: None)
        self._logbook, self._clock = Logbook(), clock
        self._leaving: str | None = None  # to be told; any thread may say so
        self._trained = 0
        carrying = Carrying(courier, clock, timeout_s)
        self._following = Following(place, self.numbers, self.tracker, carrying)

    def plan(self, part: int) -> PartPlan:
        """See `Seat`."""
        return self._following.plans[part]

    def share(self, spec: PartSpec, numbers: ModelTensors) -> None:
        """See `Seat`."""
        self.numbers[spec.part] = numbers
        try:
            answer = self._call(wire.GroupShare(spec)).message
        except errors.PacelineError:
            del self.numbers[spec.part]
            raise
        assert isinstance(answer, wire.GroupShared)
        self._following.plans[spec.part] = answer.plan

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """See `Seat`."""
        if not route.pieces:
            return
        table = route.pieces[0].slots.table
        received = self._call(wire.Lookup(part, table, create), [route.ids])
        found = np.frombuffer(received.buffers[0], np.float32)
        values.numpy()[:] = found.reshape(values.shape)

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """See `Seat`."""
        check_process(self.numbers, self.size)
        numbers = [self.numbers[part] for part in parts]
        for one in numbers:
            one.gradients.begin_step(is_scaled=scaled != "never")
        # One part alone is looked at when it is pushed.
        is_finite = len(parts) == 1 or all(one.is_finite() for one in numbers)
        with self._following.stepping(parts) as offered:
            self._call(wire.Step(offered, scaled, is_finite))
        process_rests(self.numbers)

    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """See `Seat`."""
        check_models(self.numbers)
        check_process(self.numbers, self.size)
        reader = TaskReader(stage.source, stage.spec, workers)
        self._call(wire.Begin(stage.spec, self._following.gpus()))
        is_inside = False
        try:
            while True:
                is_inside = False
                answer = self._call(wire.Next()).message
                while isinstance(answer, wire.Dealt):
                    dealt, (data, error) = answer, _read(reader, answer)
                    self._trained = dealt.trained
                    self._following.send(wire.Have(error))
                    go = self._following.follow().message
                    assert isinstance(go, wire.Go)
                    if go.is_delivered:
                        self._following.own.deliver(list(self.numbers), dealt.records)
                        is_inside = True
                        process_rests(self.numbers)
                        yield data
                        check_process(self.numbers, self.size)
                        break
                    answer = self._following.follow().message  # of the same call
                else:
                    self._drop_unspent()
                    if isinstance(answer, wire.GroupLeave):
                        raise Preempted(answer.reason)
                    return
        finally:
            reader.close()
            if is_inside:
                self._leave_loop()

    def _leave_loop(self) -> None:
        try:
            self._call(wire.LeaveLoop())
        except (errors.PacelineError, ValueError) as error:
            _log.warning("the loop was left without its leader: %s", error)
        self._drop_unspent()

    def _drop_unspent(self) -> None:
        self._following.own.forget()
        for numbers in self.numbers.values():
            numbers.gradients.zero(only_unspent=True)
            numbers.clear()

    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """See `Seat`: the leader works, and tells the value."""
        del step, work, models, workers
        with self.calls.calling(stage.spec.kind):
            [value] = self._call(wire.Begin(stage.spec)).buffers
        return bytes(value)

    def once(self, name: str) -> bool:
        """See `Seat`: never true here, but in rank 0 of one trainer."""
        del name
        self.calls.check_open()
        return False

    def stop(self, reason: str) -> None:
        """See `Seat`."""
        self.calls.check_open()
        self._following.send(wire.Tell(stop=reason))

    def save(self, number: int) -> None:
        """See `Seat`."""
        self._call(wire.GroupSave(number))

    def records(self) -> int:
        """See `Seat`."""
        return self._counted(wire.GroupAskRecords())

    def trainers(self) -> int:
        """See `Seat`."""
        return self._counted(wire.GroupAskRecords(of_trainers=True))

    def _counted(self, call: wire.GroupAskRecords) -> int:
        answer = self._call(call).message
        assert isinstance(answer, wire.GroupDone)
        return answer.number

    def trained(self) -> int:
        """See `Seat`: as of the batch that was dealt last."""
        return self._trained

    def log(self, numbers: dict[str, object]) -> None:
        """See `Seat`: the leader has them when it comes to its next call.

        Raises:
            UsageError: a value is no number.
        """
        self.calls.check_open()
        if self._logbook.add(numbers, self._clock.now_s()):
            self._send_log()

    def close(self) -> None:
        """See `Session.close`."""
        if not self.calls.is_here():
            return
        try:
            if self.calls.loop is not None:
                self.calls.loop.close()
            self._send_log()
            self._call(wire.Bye())
        except (errors.PacelineError, ValueError):
            pass  # the leader is gone, or another thread is in the loop
        finally:
            self.calls.is_closed = True
            self._following.close()

    def had(self) -> None:
        """See `Presence`: its leader tells of them."""

    def leave_soon(self, reason: str) -> None:
        """See `Presence`: the leader is told with the next call."""
        self._leaving = reason

    def abandon(self) -> None:
        """Nothing is held here."""

    def is_idle(self) -> bool:
        """See `Presence`."""
        return self.calls.open_call is None

    def _call(
        self, call: wire.Call, buffers: Sequence[Any] = ()
    ) -> Received[wire.FromLeader]:
        """See `Following.call`; it may be a forked process that calls."""
        self.calls.check_open()
        self.calls.check_own()
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            self._following.send(wire.Tell(leaving=leaving))
        return self._following.call(call, buffers)

    def _send_log(self) -> None:
        found, _ = self._logbook.take(self._clock.now_s())
        numbers = {n: float("nan") if v is None else v for n, v in found.items()}
        if numbers:
            self._following.send(wire.Tell(numbers=numbers))


def _read(reader: TaskReader, dealt: wire.Dealt) -> tuple[Any, str | None]:
    try:
        return reader.read(Batch(dealt.key, dealt.batch)), None
    except Exception as error:  # noqa: BLE001  (a user's data set may raise any)
        _log.exception("task %s cannot be read", dealt.key)
        return None, describe_error(error)
