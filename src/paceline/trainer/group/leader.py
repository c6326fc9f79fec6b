"""Rank 0 of a trainer of several processes: it alone talks to coordinator and servers.

::

    share, begin, next batch, step   all ranks make these calls: the leader hears theirs
                                     when it makes its own, works, and answers
    rows while training              one question for all of them
    anything else                    what a rank asks is answered at the next such call

Before it answers, followers have what has changed: parameters, tracked objects, or that
the trainer has joined anew. They wait for their answers and do what they are told
meanwhile; one without a batch waits in its call for the next one.

Waits: for coordinator and servers, and for followers to come to the same call, without a
bound: a step may take as long as it takes, and who dies ends the trainer. The thread of
the user's script calls.
"""

import logging
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import nn

from paceline.errors import Preempted, describe_error
from paceline.messages.shared import PartSpec, StageSpec
from paceline.params.rows import Float32s
from paceline.trainer.engine import Scaled, Steps
from paceline.trainer.evaluator import Work
from paceline.trainer.group import wire as wire
from paceline.trainer.group.collectives import GroupTensors
from paceline.trainer.group.delegated_requests import Errands
from paceline.trainer.group.gpu_agreement import Agreement
from paceline.trainer.group.joint_push import GroupValues, JointGradients
from paceline.trainer.group.leader_calls import Followers, Served
from paceline.trainer.group.offers import OwnShare, deal
from paceline.trainer.loop import (
    Stage,
    TaskReader,
    check_models,
    check_process,
    check_steps,
    leaving_anyhow,
    process_rests,
)
from paceline.trainer.membership import Membership
from paceline.trainer.protocol import check_order
from paceline.trainer.rows.routing import Route, Router
from paceline.trainer.seat import Alone, MemberSeat
from paceline.trainer.tensors import ModelTensors
from paceline.trainer.verdicts import AfterStep, Batch, Flush, Leaving, Over
from paceline.transport.frames import ByteArray
from paceline.transport.streams import Received

_log = logging.getLogger("paceline.trainer")
_DISORDER = "the ranks do not leave in good order"


@final
class Leader(MemberSeat):
    """Rank 0."""

    def __init__(self, membership: Membership, place: wire.GroupPlace) -> None:
        """Meet the followers.

        Raises:
            PeerLost: one did not come.
        """
        super().__init__(membership, place.size)
        self.reader = self
        self._alone = Alone(membership)
        self._followers = Followers(place, self._serve, self._note, membership.driver.waits)
        self._active: list[int] = []  # followers with a batch
        self._own = OwnShare()
        self._failed: tuple[Batch, str] | None = None  # a batch that cannot be read
        self._num_saves = 0
        self._joined: object = self._carrier.protocol.joined
        self._loads = 0
        self._carrier.after_step = self._after_step
        self._tensors = GroupTensors(place)
        self._joint = JointGradients(
            self._followers, self._tensors, self._carrier, self._own
        )
        self._agreement = Agreement(self._followers, self._tensors, self.numbers)
        self._values = GroupValues(self._followers, self._tensors, self._carrier)
        self._errands = Errands(self._followers, self._carrier, self._joint, self._values)
        self._carrier.entrust = self._errands.entrust

    def share(self, spec: PartSpec, numbers: ModelTensors) -> None:
        """See `Seat`; all ranks share the same.

        Raises:
            UsageError: a rank shares something else.
        """
        with self._followers.hearing(wire.GroupShare) as calls:
            for index, call in calls.items():
                assert isinstance(call, wire.GroupShare)
                self._followers.check_same(index, call.spec, spec, "session.share")
            numbers.join_by(partial(self._joint.join, spec.part))
            self._carrier.share(spec, numbers)
            self._synchronize()
            plan = self._carrier.plan(spec.part)
            self._followers.answer(self._followers.all, wire.GroupShared(plan))

    def wait_rows(
        self, part: int, route: Route, values: torch.Tensor, *, create: bool
    ) -> None:
        """See `Seat`; while training, with what all ranks look up."""
        if not create or not self._active:
            self._carrier.wait_rows(part, route, values, create=create)
            return
        self._followers.hear(self._active, wire.Lookup)
        table = route.pieces[0].slots.table if route.pieces else ""
        ids = {
            number: np.frombuffer(call.buffers[0], np.int64)
            for number, call in self._followers.calls.items()
            if call.message == wire.Lookup(part, table, True)
        }
        if not ids:
            self._carrier.wait_rows(part, route, values, create=create)
            return
        wanted = np.concatenate([route.ids, *ids.values()])
        union, inverse = Router(table, self.plan(part)).route(wanted)
        rows = torch.empty(len(union.ids), values.shape[1])
        self._carrier.wait_rows(part, union, rows, create=True)
        found = rows.numpy()[inverse]
        values.numpy()[:] = found[: len(route.ids)]
        start = len(route.ids)
        for number, own in ids.items():
            rows_of_it = found[start : start + len(own)]
            self._followers.answer([number], wire.GroupDone(), [rows_of_it])
            start += len(own)

    def deliver(self, stage: Stage, workers: int) -> Generator[Any, None, None]:
        """See `Seat`; this rank has the first of every deal."""
        carrier, spec = self._carrier, stage.spec
        check_models(self.numbers)
        check_process(self.numbers, self.size)
        reader = TaskReader(stage.source, spec, workers)
        with self._followers.hearing(wire.Begin) as calls:
            self._followers.check_stages(calls, spec)
            carrier.run(carrier.protocol.begin_stage(spec))
            check_order(carrier.protocol.stage, spec)
            carrier.steps = Steps(spec)
            self._agreement.agree(calls)
            self._synchronize(calls)
        is_inside = False  # the user's loop has a batch, here and in other ranks
        try:
            while True:
                is_inside = False
                with self._together(wire.Next):
                    found = self._next(spec, reader)
                if isinstance(found, Over):
                    return
                if isinstance(found, Leaving):
                    raise Preempted(found.reason)
                if found is not None:
                    is_inside = True
                    process_rests(self.numbers)
                    yield found[0]
                    check_process(self.numbers, self.size)
        finally:
            reader.close()
            if is_inside:
                self._leave_loop()

    def _next(
        self, spec: StageSpec, reader: TaskReader
    ) -> list[Any] | Over | Leaving | None:
        """This rank's data, alone in a list; the end of the loop; or nothing yet."""
        carrier, self._active = self._carrier, []
        if self._failed is not None:
            (batch, error), self._failed = self._failed, None
            carrier.flush()
            carrier.run(carrier.protocol.fail_task(batch, error))
        found = carrier.run(deal(carrier.protocol, self.size))
        self._synchronize()
        if isinstance(found, Over):
            check_steps(carrier, is_over=True)
            self._followers.answer(self._followers.all, wire.GroupOver())
            return found
        if isinstance(found, Leaving):
            with leaving_anyhow(_DISORDER):
                carrier.leave_loop()
            self._followers.answer(self._followers.all, wire.GroupLeave(found.reason))
            return found
        if isinstance(found, Flush):
            check_steps(carrier, is_over=False)
            carrier.flush()
            return None
        return self._read(found, spec, reader)

    def _read(
        self, batches: Sequence[Batch], spec: StageSpec, reader: TaskReader
    ) -> list[Any] | None:
        """Every rank reads its batch; those before the first that cannot be read count."""
        records = [spec.batch_records(b.key.task, b.batch, b.batch) for b in batches]
        readers = range(1, len(batches))
        for index in readers:
            key, batch = batches[index]
            told = wire.Dealt(key, batch, records[index], self.trained())
            self._followers.tell([index], told)
        errors: list[str | None] = [None]
        data: Any = None
        try:
            data = reader.read(batches[0])
        except Exception as error:  # noqa: BLE001  (a user's data set may raise any)
            _log.exception("task %s cannot be read", batches[0].key)
            errors = [describe_error(error)]
        for index in readers:
            have = self._followers.receive(index).message
            assert isinstance(have, wire.Have)
            errors.append(have.error)
        bad = [index for index, error in enumerate(errors) if error is not None]
        good = bad[0] if bad else len(batches)
        for dealt in reversed(batches[good:]):
            self._carrier.protocol.take_back(dealt)
        if bad:
            self._failed = (batches[good], errors[good] or "")
        for index in readers:
            say = self._followers.answer if index < good else self._followers.tell
            say([index], wire.Go(index < good))
        self._active = [index for index in readers if index < good]
        if not good:
            return None
        self._carrier.steps.deliver(batches[0].key)
        self._own.deliver(list(self.numbers), records[0])
        return [data]

    def step_all(self, parts: Sequence[int], *, scaled: Scaled) -> None:
        """See `Seat`; gradients of all ranks, weighted by their records.

        Raises:
            UsageError: no batch was delivered since the last step.
        """
        check_process(self.numbers, self.size)
        with self._together(wire.Step, self._active) as calls:
            worst: Scaled = scaled
            for index, call in calls.items():
                assert isinstance(call, wire.Step)
                theirs, ours = tuple(call.offered), tuple(parts)
                self._followers.check_same(index, theirs, ours, "optimizer.step of parts")
                if call.scaled == "not finite" or not call.is_finite:
                    worst = "not finite"
            self._carrier.step_all(parts, scaled=worst)
            self._synchronize(calls)
        process_rests(self.numbers)

    def _after_step(self, after: AfterStep) -> None:
        self._own.stepped(after.part, is_kept=after.is_kept)
        self._followers.stepped(self._followers.all, after)

    def _leave_loop(self) -> None:
        """Left early, by all ranks that have a batch; the others' loops are over."""
        active, self._active = self._active, []
        with leaving_anyhow(_DISORDER), self._together(wire.LeaveLoop, active) as calls:
            self._followers.hear(
                [i for i in self._followers.all if i not in calls], wire.Next
            )
            self._carrier.leave_loop()
            self._own.forget()
            self._synchronize(calls)
            self._followers.answer(list(self._followers.calls), wire.GroupOver())

    def evaluate(
        self,
        stage: Stage,
        step: Callable[[Any], Any],
        work: Work,
        models: Sequence[nn.Module],
        workers: int,
    ) -> bytes:
        """See `Seat`; this rank works, the others are told the value."""
        with self._followers.hearing(wire.Begin) as calls:
            self._followers.check_stages(calls, stage.spec)
            value = self._alone.evaluate(stage, step, work, models, workers)
            self._synchronize()
            self._followers.answer(self._followers.all, wire.GroupDone(), [value])
        return value

    def save(self, number: int) -> None:
        """See `Seat`."""
        self._alone.save(number)
        self._num_saves = max(self._num_saves, number)

    def close(self) -> None:
        """Leave the job, when all ranks have come to the end of their sessions."""
        if self.membership.calls.open_call is not None:
            self.membership.close()
        else:
            with leaving_anyhow(_DISORDER), self._followers.hearing(wire.Bye):
                self._followers.answer(self._followers.all, wire.GroupDone())
        self._followers.close()
        self._tensors.close()
        self.membership.close()

    def _serve(
        self,
        number: int,
        received: Received[wire.FromFollower],
        kind: type[wire.Call],
    ) -> Served:
        """Answer what needs no other rank; None: the call waits for the leader's own."""
        call, buffers = received
        if isinstance(call, wire.Step) and kind is wire.Next:
            # Ranks that count their batches to a step may have had fewer: it is kept.
            for part in call.offered:
                is_refused = call.scaled == "not finite"
                kept = AfterStep(part, True, zero_grad=False, is_refused=is_refused)
                self._followers.stepped([number], kept)
            return wire.GroupDone(), []
        if isinstance(call, wire.GroupAskRecords):
            count = self.trainers() if call.of_trainers else self.records()
            return wire.GroupDone(count), []
        if isinstance(call, wire.GroupSave):
            if call.number > self._num_saves:
                self.save(call.number)
            return wire.GroupDone(), []
        if isinstance(call, wire.Lookup):
            return wire.GroupDone(), [self._look_up(call, buffers[0])]
        return None

    def _look_up(self, call: wire.Lookup, data: ByteArray) -> Float32s:
        """Rows that one follower alone looks up now, in the order of its ids."""
        ids = np.frombuffer(data, np.int64)
        plan = self.plan(call.part)
        [dim] = [table.dim for table in plan.spec.tables if table.name == call.table]
        route, inverse = Router(call.table, plan).route(ids)
        rows = torch.empty(len(route.ids), dim)
        self._carrier.wait_rows(call.part, route, rows, create=call.create)
        found: Float32s = rows.numpy()[inverse]
        return found

    def _note(self, told: wire.Tell) -> None:
        if told.numbers:
            self.log(dict(told.numbers))
        if told.stop is not None:
            self.stop(told.stop)
        if told.leaving is not None:
            self.membership.leave_soon(told.leaving)

    def _synchronize(self, ending: Collection[int] = ()) -> None:
        """All followers wait in calls: they get what has changed, and some are done."""
        protocol = self._carrier.protocol
        if protocol.joined is not self._joined:
            self._joined = protocol.joined
            self._own.forget()
            self._followers.tell(self._followers.all, wire.GroupForget())
        loads = protocol.tracked.loads + protocol.tracked.buffers
        if loads != self._loads:
            self._loads = loads
            self._followers.tell(
                self._followers.all, wire.GroupLoad(), [self.tracker.encode()]
            )
        fresh = self._values.fresh()
        self._followers.answer(ending, wire.GroupDone(refresh=fresh))
        if fresh is not None:
            waiting = [number for number in self._followers.all if number not in ending]
            self._followers.tell(waiting, fresh)
            self._values.share(fresh)

    @contextmanager
    def _together(
        self, kind: type[wire.Call], numbers: Sequence[int] | None = None
    ) -> Iterator[dict[int, wire.FromFollower]]:
        """As `Followers.hearing`; others may talk to servers: they all wait in calls."""
        hearing = self._followers.hearing(kind, numbers, or_waits=True)
        with hearing as calls, self._errands.possible():
            yield calls
