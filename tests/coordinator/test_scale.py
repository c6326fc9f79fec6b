"""An event costs what it concerns, not what there is: trainers, open leases, tasks.

Costs are counted in executed instructions of the interpreter, which no other work on the
machine changes. Ten times the trainers or tasks may cost half as much again.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from paceline.config import Async, Pace, Sync
from paceline.coordinator.durable.queue import Queue, encode_queue
from paceline.coordinator.state import TimePassed
from paceline.ids import Span, Window
from paceline.messages.shared import ParameterSpec, PartSpec, StageSpec, Waiting
from paceline.messages.trainer import (
    AskLease,
    AskRecords,
    Beat,
    Granted,
    JoinTrainer,
    Log,
    SharePart,
    Tick,
    Ticked,
)

FEW, MANY = 30, 300
MOST = 1.5  # times the cost at a tenth of the size


def instructions(action: Callable[[], object]) -> int:
    """How many instructions of the interpreter an action executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


class Crowd:
    """A running job of many trainers, each with a lease."""

    def __init__(
        self, make_job: Any, trainers: int, pace: Pace, tasks: int, *tracked: str
    ) -> None:
        self.job = make_job(trainers=trainers, pace=pace, is_checked=False)
        stage = StageSpec(0, tasks * 4, 1, 4, 1, True, 0, "data", tracked)
        self.names = [f"trainer-{number}" for number in range(trainers)]
        self.job.open(self.names[0], stage=stage)
        spec = PartSpec(0, (ParameterSpec(("w",), (8,), "float32"),), None, (), pace)
        for name in self.names[1:]:
            joined = self.ask(name, JoinTrainer(trainer=name, pid=1, host="here"))
            self.job.trainers[name] = joined.incarnation
            self.ask(name, SharePart(**self.job.who(name), spec=spec))
        tickets = {name: self.job.ask(name, self.ask_lease(name)) for name in self.names}
        self.job.serve()
        self.leases = {}
        for name, ticket in tickets.items():
            reply = self.job.answers[ticket]
            assert isinstance(reply, Granted)
            self.leases[name] = reply.lease

    def ask(self, name: str, message: Any) -> Any:
        return self.job.answers.get(self.job.ask(name, message))

    def ask_lease(self, name: str) -> AskLease:
        return AskLease(**self.job.who(name), stage=0)

    def tick(self, name: str, batch: int, round_: int | None = None) -> Any:
        lease = self.leases[name]
        window = Window(0, 0, (Span(lease.key.task, batch, batch),))
        tick = Tick(
            **self.job.who(name),
            part=0,
            number=batch + 1,
            window=window,
            records=1,
            acked=(batch,),
            round=round_,
            is_prepared=round_ is not None,
            next_lease=True,
        )
        reply = self.ask(name, tick)
        if isinstance(reply, Ticked) and reply.lease is not None:
            self.leases[name] = reply.lease
        return reply

    def finish(self, name: str) -> Any:
        """Tick a whole task, batch by batch."""
        return [self.tick(name, batch) for batch in range(4)][-1]


def assert_flat(cost: Callable[[int], int], few: int = FEW, many: int = MANY) -> None:
    at_few, at_many = cost(few), cost(many)
    assert at_few > 10, "nothing was measured"
    assert at_many <= MOST * at_few, f"{few}: {at_few} instructions, {many}: {at_many}"


def test_a_finished_task_and_the_next_lease_cost_the_same_among_many(make_job: Any) -> None:
    def cost(trainers: int) -> int:
        crowd = Crowd(make_job, trainers, Async(), 10 * trainers)
        return instructions(lambda: crowd.finish(crowd.names[-1]))

    assert_flat(cost)


def test_a_tick_that_does_not_close_its_round_costs_the_same_among_many(
    make_job: Any,
) -> None:
    def cost(trainers: int) -> int:
        crowd = Crowd(make_job, trainers, Sync(), 10 * trainers, "scheduler")
        for name in crowd.names[:-2]:
            assert crowd.tick(name, 0, round_=1) is None
        return instructions(lambda: crowd.tick(crowd.names[-2], 0, round_=1))

    assert_flat(cost)


def test_a_round_costs_each_of_its_trainers_the_same_among_many(make_job: Any) -> None:
    def cost(trainers: int) -> int:
        crowd = Crowd(make_job, trainers, Sync(), 10 * trainers, "scheduler")

        def rounds() -> None:
            for number in range(4):  # the fourth ends a task of each
                for name in crowd.names:
                    crowd.tick(name, number, round_=number + 1)

        count = instructions(rounds)
        assert crowd.job.state.status().tasks_done == trainers
        return count // trainers

    assert_flat(cost, 8, 80)


def test_an_event_costs_the_same_while_many_wait_for_the_last_task(make_job: Any) -> None:
    def cost(trainers: int) -> int:
        crowd = Crowd(make_job, trainers, Async(), trainers)
        for name in crowd.names[1:]:
            crowd.finish(name)
            assert crowd.ask(name, crowd.ask_lease(name)) is None
        waiting, working = crowd.names[-1], crowd.names[0]

        def events() -> None:
            crowd.tick(working, 0)
            crowd.ask(waiting, crowd.ask_lease(waiting))
            crowd.ask(waiting, Beat(**crowd.job.who(waiting), clock=1, state="waiting"))
            crowd.ask(working, Log(**crowd.job.who(working), numbers={"loss": 1.0}))
            crowd.ask(working, AskRecords(**crowd.job.who(working)))
            crowd.job.ask("server-0", crowd.job.servers[0].report())

        return instructions(events)

    assert_flat(cost)


def test_a_wait_that_ends_costs_the_same_among_many(make_job: Any) -> None:
    def cost(trainers: int) -> int:
        crowd = Crowd(make_job, trainers, Async(), trainers)
        first, *others = crowd.names[1:]
        for name in crowd.names[1:]:
            crowd.finish(name)
        ticket = crowd.job.ask(first, crowd.ask_lease(first))
        crowd.job.now += 0.5
        for name in others:
            crowd.ask(name, crowd.ask_lease(name))
        crowd.job.now += 0.6
        beat = Beat(**crowd.job.who(first), clock=1, state="waiting")
        count = instructions(lambda: crowd.ask(first, beat))
        answer = crowd.job.answers[ticket]
        assert isinstance(answer, Waiting)
        assert answer.wait.reason == "the epoch's last tasks are with trainer-0"
        return count

    assert_flat(cost)


def test_passing_time_costs_no_more_than_in_proportion(make_job: Any) -> None:
    costs = []
    for trainers in (FEW, MANY):
        crowd = Crowd(make_job, trainers, Async(), 10 * trainers)
        costs.append(instructions(lambda job=crowd.job: job.apply(TimePassed())))  # type: ignore[misc]  # bound now
    assert costs[1] <= MANY / FEW * MOST * costs[0]


@pytest.mark.parametrize("behind", [100, 100_000])
def test_a_queue_stays_small_behind_a_task_that_takes_for_ever(behind: int) -> None:
    queue = Queue()
    for task in range(behind):
        queue.open.add(task)
        queue.next_fresh = task + 1
        if task:
            queue.close(task)
    assert queue.num_done() == behind - 1
    assert not queue.is_done(0)
    assert len(encode_queue(queue)) < 300


def test_tasks_that_come_back_cost_the_same_among_many() -> None:
    def cost(tasks: int) -> int:
        queue = Queue(next_fresh=tasks, open=set(range(tasks)))
        for task in range(0, tasks, 2):
            queue.put_back(task)
        return instructions(lambda: queue.put_back(tasks // 2 + 1))

    assert_flat(cost)


def test_what_is_cached_beside_the_queue_is_neither_copied_nor_compared() -> None:
    queue = Queue()
    assert not queue.held_by(1)
    assert queue == msgspec.msgpack.decode(encode_queue(queue), type=Queue)
