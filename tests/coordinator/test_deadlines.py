"""When a lease without progress is over."""

from typing import Any

from msgspec.structs import replace

from paceline.config import Async
from paceline.coordinator.durable import Durable, Queue
from paceline.coordinator.durable.outcomes import TrainerLost
from paceline.coordinator.durable.queue import LeaseRecord
from paceline.coordinator.ledgers.tasks import CEILING_S, FLOOR_S, Deadlines
from paceline.ids import TaskKey
from paceline.messages.shared import Lease, StageSpec
from paceline.messages.trainer import Beat
from tests.coordinator.conftest import STAGE

FIRST_S = 1800.0


def each_holding(records: int) -> Durable:
    """Each of 40 trainers holds a task of so many records; its incarnation is the task."""
    spec = StageSpec(0, 40 * records, 1, records, 1, False, 0, "data")
    queue = Queue()
    for task in range(40):
        lease = Lease(token=task + 1, key=TaskKey(0, 0, task), first=0)
        queue.lend(task, LeaseRecord(lease, f"trainer-{task}", task))
    return Durable(stages={0: spec}, queue=queue)


ONE, MANY = each_holding(1), each_holding(100)


def measuring() -> Deadlines:
    """Where nobody is at its first batch any more."""
    deadlines = Deadlines(FIRST_S)
    for incarnation in range(20):
        deadlines.has_begun(incarnation)
    return deadlines


def test_a_batch_longer_than_the_floor_is_given_more_time_the_next_time() -> None:
    deadlines = measuring()
    deadlines.goes_on(1, MANY.queue, 0.0)
    assert deadlines.expired(MANY, FLOOR_S) == [1]
    deadlines.pause(1)
    deadlines.goes_on(2, MANY.queue, FLOOR_S)
    assert deadlines.expired(MANY, 2.5 * FLOOR_S) == []
    assert deadlines.expired(MANY, 3 * FLOOR_S) == [2]


def test_a_first_batch_longer_than_allowed_is_given_more_time_the_next_time() -> None:
    deadlines = Deadlines(10.0)
    deadlines.goes_on(1, MANY.queue, 0.0)
    assert deadlines.expired(MANY, 10.0) == [1]
    deadlines.forget(1)
    deadlines.goes_on(2, MANY.queue, 10.0)
    assert deadlines.expired(MANY, 29.0) == []
    assert deadlines.expired(MANY, 30.0) == [2]
    assert deadlines.first_batch_s == 40.0


def test_nobody_is_given_more_than_the_ceiling() -> None:
    deadlines, huge = measuring(), each_holding(10**9)
    now = 0.0
    for incarnation in range(20):
        deadlines.goes_on(incarnation, huge.queue, now)
        now += CEILING_S
        assert deadlines.expired(huge, now) == [incarnation]
        deadlines.pause(incarnation)


def test_waiting_stops_the_clock_of_a_lease() -> None:
    deadlines = measuring()
    deadlines.goes_on(1, MANY.queue, 0.0)
    deadlines.pause(1)
    assert deadlines.expired(MANY, 10 * CEILING_S) == []


def test_batches_that_become_slow_later_have_longer() -> None:
    deadlines, now = measuring(), 0.0
    for seconds in [0.01] * 1000 + [9.0] * 1000:
        deadlines.goes_on(1, ONE.queue, now)
        now += seconds
        deadlines.progressed(1, 1, now)
    deadlines.goes_on(1, ONE.queue, now)
    assert not deadlines.expired(ONE, now + 89.0)  # ten times what a batch takes by now
    assert deadlines.expired(ONE, now + 91.0) == [1]


def test_a_deadline_is_of_what_batches_took_when_its_clock_began() -> None:
    deadlines = measuring()
    deadlines.goes_on(1, ONE.queue, 0.0)
    for _ in range(16):
        deadlines.goes_on(2, ONE.queue, 0.0)
        deadlines.stopped(2, 1, 9.0)
    assert deadlines.expired(ONE, FLOOR_S) == [1], "though ten times that is longer"


def test_a_later_lease_that_falls_due_first_is_not_overlooked() -> None:
    deadlines = measuring()
    deadlines.goes_on(1, MANY.queue, 0.0)
    assert deadlines.expired(MANY, FLOOR_S - 1) == []
    deadlines.pause(1)
    deadlines.goes_on(2, MANY.queue, 1.0)
    assert deadlines.expired(MANY, FLOOR_S) == []
    assert deadlines.expired(MANY, FLOOR_S + 1) == [2]


def test_who_stops_has_told_how_long_it_took_and_its_clock_stands_still() -> None:
    deadlines, now = measuring(), 0.0
    for _ in range(100):
        deadlines.goes_on(1, ONE.queue, now)
        now += 9.0
        deadlines.stopped(1, 1, now)
    assert deadlines.expired(ONE, now + 10 * CEILING_S) == []
    deadlines.goes_on(1, ONE.queue, now)
    assert not deadlines.expired(ONE, now + 89.0)
    assert deadlines.expired(ONE, now + 91.0) == [1]


def test_silence_that_is_nobodys_fault_is_added_to_everyones_time() -> None:
    deadlines = measuring()
    deadlines.goes_on(1, MANY.queue, 0.0)
    deadlines.excuse(30.0)
    assert deadlines.expired(MANY, FLOOR_S + 29.0) == []
    assert deadlines.expired(MANY, FLOOR_S + 30.0) == [1]


def test_the_first_batch_of_a_membership_may_take_longer() -> None:
    deadlines = Deadlines(FIRST_S)
    deadlines.goes_on(1, MANY.queue, 0.0)
    assert deadlines.expired(MANY, FIRST_S - 1) == []
    deadlines.progressed(1, 8, FIRST_S - 1)
    deadlines.goes_on(1, MANY.queue, FIRST_S)
    assert deadlines.expired(MANY, FIRST_S + FLOOR_S) == [1], "its second one may not"
    deadlines.forget(1)
    deadlines.goes_on(2, MANY.queue, 2 * FIRST_S)
    assert deadlines.expired(MANY, 3 * FIRST_S - 1) == [], "another process compiles anew"
    assert deadlines.expired(MANY, 3 * FIRST_S) == [2]


def test_how_long_first_batches_took_says_nothing_of_others() -> None:
    deadlines, now = Deadlines(FIRST_S), 0.0
    for incarnation in range(40):
        deadlines.goes_on(incarnation, ONE.queue, now)
        now += 600.0
        deadlines.progressed(incarnation, 1, now)
        deadlines.goes_on(incarnation, ONE.queue, now)
        now += 0.01
        deadlines.stopped(incarnation, 1, now)
    deadlines.goes_on(0, ONE.queue, now)
    assert deadlines.expired(ONE, now + FLOOR_S) == [0]


def test_a_first_step_of_a_minute_ends_nobody_and_one_beyond_is_named(
    make_job: Any,
) -> None:
    job = make_job(first_batch_s=300.0)
    job.open("trainer-0")
    job.lease("trainer-0")
    for _ in range(299):
        job.wait(1)
        job.get("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="working"))
    assert "trainer-0" in job.state.durable.trainers
    job.wait(2)
    [lost] = [one for one in job.outcomes if isinstance(one, TrainerLost)]
    assert lost.kind == "expired"
    assert "300 s (--first-batch)" in lost.reason


def test_who_holds_nothing_waits_for_work_without_a_deadline(make_job: Any) -> None:
    job = make_job(pace=Async(), first_batch_s=60.0)
    job.open("trainer-0", "trainer-1", stage=replace(STAGE, records=20))
    done, slow = job.lease("trainer-0"), job.lease("trainer-1")
    job.restart()
    job.serve()
    assert job.lease("trainer-0", (done.token, 4)) is None, "no task is left"
    for second in range(80):
        job.wait(1)
        for trainer in ("trainer-0", "trainer-1"):
            job.get(trainer, Beat(**job.who(trainer), clock=0, state="waiting"))
        if second % 20 == 0:
            job.tick("trainer-1", slow, second // 20, second // 20)
    assert "trainer-0" in job.state.durable.trainers


def test_who_closes_one_task_of_two_has_all_its_time_for_the_other(make_job: Any) -> None:
    job = make_job(pace=Async(), first_batch_s=60.0)
    job.open("trainer-0", stage=replace(STAGE, records=20))
    one = job.lease("trainer-0")
    other = job.lease("trainer-0", (one.token, -1))

    def wait(seconds: int) -> bool:
        for _ in range(seconds):
            job.wait(1)
            job.get("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="working"))
        return "trainer-0" in job.state.durable.trainers

    assert wait(50)
    assert job.lease("trainer-0", (one.token, 4), (other.token, -1)) is None
    assert wait(50)
    assert not wait(12)
