"""The task queue (behaviours 1-16): leases, epochs, failures, resuming."""

from typing import Any

import pytest
from msgspec.structs import replace

from paceline.config import Async
from paceline.coordinator.durable.queue import LeaseRecord, Queue
from paceline.ids import TaskKey
from paceline.messages.shared import Done, Lease, ParameterSpec, PartSpec, Refusal, Waiting
from paceline.messages.trainer import (
    AskLease,
    Beat,
    BeginStage,
    FailTask,
    Granted,
    HandBack,
    Leave,
    PartAnswer,
    Save,
    Saved,
    SharePart,
    ShuffledAs,
    StageOver,
    Stop,
)
from paceline.messages.waits import Wait


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async())
    job.open("trainer-0")
    return job


def test_tasks_are_leased_in_order_and_done_when_every_batch_is_acknowledged(
    job: Any,
) -> None:
    lease = job.lease("trainer-0")
    assert (lease.key.task, lease.first) == (0, 0)
    job.tick("trainer-0", lease, 0, 3)
    assert job.state.durable.queue.pending
    job.tick("trainer-0", lease, 4, 4)
    assert not job.state.durable.queue.pending
    assert job.state.status().tasks_done == 1


def test_a_lost_reply_costs_nothing_the_same_lease_is_granted_again(job: Any) -> None:
    first = job.lease("trainer-0")
    assert job.lease("trainer-0") == first
    assert job.lease("trainer-0", (first.token, -1)).key.task == 1


def test_a_repeated_finish_is_answered_like_the_first(job: Any) -> None:
    lease = job.lease("trainer-0")
    assert job.finish("trainer-0", lease) == job.finish("trainer-0", lease)
    assert job.state.status().tasks_done == 1


def test_an_epoch_rolls_over_only_when_todo_and_pending_are_empty(job: Any) -> None:
    leases = [job.lease("trainer-0")]
    for _ in range(3):
        held = [(lease.token, -1) for lease in leases]
        leases.append(job.lease("trainer-0", *held))
    assert job.state.status().queue.todo == 0
    for lease in leases[:3]:
        job.finish("trainer-0", lease)
    assert job.state.status().queue.epoch == 0
    job.finish("trainer-0", leases[3])
    assert job.state.status().queue.epoch == 1


def test_the_stage_is_over_for_all_after_the_last_epoch_and_its_cut(job: Any) -> None:
    for _ in range(8):
        job.finish("trainer-0", job.lease("trainer-0"))
    assert isinstance(job.lease("trainer-0"), StageOver)
    assert job.state.status().records == 80
    assert job.state.status().epochs == 2
    assert job.names()[-1] == "CutCommitted"


def test_a_waiting_trainer_is_told_what_it_waits_for(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    job.wait(1.5)
    assert job.answers[ticket] == Waiting(
        wait=Wait("members", "1 of 2 trainers have asked for work", ("trainer-1",), 0, 1.0)
    )


def test_a_handed_back_task_goes_on_behind_its_last_acknowledged_batch(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 1)
    back = HandBack(**job.who("trainer-0"), tokens=(lease.token,), acked=(1,))
    assert job.get("trainer-0", back) == Done()
    again = job.lease("trainer-0")
    assert (again.key, again.first) == (lease.key, 2)
    assert again.token > lease.token


def test_a_task_that_fails_too_often_is_given_up_visibly_and_returns_next_epoch(
    job: Any,
) -> None:
    for _ in range(3):
        lease = job.lease("trainer-0")
        assert lease.key.task == 0
        fail = FailTask(
            **job.who("trainer-0"), token=lease.token, acked=-1, error="bad row"
        )
        job.get("trainer-0", fail)
    for task in (1, 2, 3):
        lease = job.lease("trainer-0")
        assert lease.key.task == task
        job.finish("trainer-0", lease)
    status = job.state.status()
    assert (status.tasks_failed, status.queue.epoch) == (1, 1)
    assert job.lease("trainer-0").key.task == 0


def test_a_job_whose_epoch_failed_altogether_is_broken(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.open("trainer-0")
    for _ in range(12):
        lease = job.lease("trainer-0")
        fail = FailTask(**job.who("trainer-0"), token=lease.token, acked=-1, error="bad")
        job.get("trainer-0", fail)
    refused = job.lease("trainer-0")
    assert job.state.status().error == "all tasks of an epoch failed"
    assert refused.kind == "broken", "nobody waits for work that never comes"
    assert refused.text == "the job has failed: all tasks of an epoch failed"


def test_a_silent_trainers_task_goes_to_another_after_all_servers_fenced_it(
    make_job: Any,
) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    lease = job.lease("trainer-1")
    held = job.answers[ticket].lease
    job.servers[0].marks[held.key] = (2,)
    job.servers[1].marks[held.key] = (1,)
    job.servers[1].is_deaf = True
    job.lose("trainer-0")
    assert job.lease("trainer-1", (lease.token, -1)).key.task == 2
    job.servers[1].is_deaf = False
    job.serve()
    again = job.lease("trainer-1", (lease.token, -1), (lease.token + 1, -1))
    assert again.key == held.key
    assert (again.first, again.edges) == (2, (2,))


def test_a_dead_trainers_task_that_the_marks_show_complete_is_completed(job: Any) -> None:
    lease = job.lease("trainer-0")
    for server in job.servers:
        server.marks[lease.key] = (4,)
    job.lose("trainer-0")
    job.join("trainer-0")
    assert job.lease("trainer-0").key.task == 1
    assert job.state.status().tasks_done == 1


def test_a_lease_without_progress_expires_and_its_holder_is_fenced(make_job: Any) -> None:
    job = make_job(first_batch_s=60.0)
    job.open("trainer-0")
    lease = job.lease("trainer-0")
    for _ in range(61):
        job.wait(1)
        job.get("trainer-0", _beat(job, "trainer-0"))
    refusal = job.tick("trainer-0", lease, 0, 0)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "fenced"
    assert job.state.durable.queue.timeouts == {0: 1}


def test_a_stage_goes_on_in_the_order_in_which_it_was_begun(make_job: Any) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    stage = job.state.durable.stages[0]
    other = replace(stage, loop=3)
    reply = job.get("trainer-1", _begin(job, "trainer-1", other))
    assert reply == ShuffledAs(loop=0)
    assert job.state.durable.stages[0] == stage


def test_another_description_of_the_same_stage_is_refused_with_what_differs(
    make_job: Any,
) -> None:
    job = make_job(trainers=2, pace=Async())
    job.open("trainer-0", "trainer-1")
    stage = job.state.durable.stages[0]
    other = type(stage)(0, 41, 2, 10, 2, True, 0, "data")
    reply = job.get("trainer-1", _begin(job, "trainer-1", other))
    assert reply.kind == "mismatch"
    assert "the data: 40 records of data then, 41 records of data now" in reply.text


def test_a_finish_on_an_old_incarnation_is_refused_not_counted(job: Any) -> None:
    lease = job.lease("trainer-0")
    old = job.who("trainer-0")
    job.lose("trainer-0")
    job.join("trainer-0")
    job.trainers["trainer-0"], new = old["incarnation"], job.trainers["trainer-0"]
    assert job.finish("trainer-0", lease).kind == "fenced"
    job.trainers["trainer-0"] = new
    assert job.lease("trainer-0").key == lease.key


def test_stop_ends_the_loop_for_all_after_a_cut(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.get("trainer-0", _stop(job, "trainer-0"))
    assert job.tick("trainer-0", lease, 0, 0).stopped == "enough"
    job.get("trainer-0", HandBack(**job.who("trainer-0"), tokens=(1,), acked=(0,)))
    over = job.lease("trainer-0")
    assert isinstance(over, StageOver)
    assert over.stopped == "enough"
    assert job.state.status().records == 2


def test_no_lease_is_granted_before_a_cut_holds_every_part(job: Any) -> None:
    assert "LeaseGranted" not in job.names()
    assert isinstance(job.get("trainer-0", _ask(job, "trainer-0")), Granted)
    names = job.names()
    assert names.index("CutCommitted") < names.index("LeaseGranted")


def _ask(job: Any, trainer: str) -> Any:
    return AskLease(**job.who(trainer), stage=0)


def _beat(job: Any, trainer: str) -> Any:
    return Beat(**job.who(trainer), clock=0, state="computing")


def _begin(job: Any, trainer: str, spec: Any) -> Any:
    return BeginStage(**job.who(trainer), spec=spec)


def _stop(job: Any, trainer: str) -> Any:
    return Stop(**job.who(trainer), reason="enough")


def test_one_tick_tells_a_restarted_coordinator_how_far_its_task_is(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 3)
    job.restart()
    job.serve()
    job.tick("trainer-0", lease, 4, 4)
    assert job.state.status().tasks_done == 1


def test_a_task_is_open_until_its_batches_are_acknowledged_in_every_part(job: Any) -> None:
    lease = job.lease("trainer-0")
    job.tick("trainer-0", lease, 0, 4, acked=(-1,))  # another part has none of them yet
    assert job.state.status().tasks_done == 0
    job.tick("trainer-0", lease, 0, 4, acked=(4,), number=6)
    assert job.state.status().tasks_done == 1


def test_a_stage_that_all_have_left_early_ends_with_the_cut_they_wait_for(
    job: Any,
) -> None:
    lease = job.lease("trainer-0")
    who = job.who("trainer-0")
    job.get("trainer-0", HandBack(**who, tokens=(lease.token,), acked=(-1,)))
    saved = job.get("trainer-0", Save(**who, number=-1, left=0))
    assert isinstance(saved, Saved)
    assert job.state.durable.queue.stage == 1


def test_after_a_stop_every_later_loop_is_over_too(job: Any) -> None:
    job.finish("trainer-0", job.lease("trainer-0"))
    job.get("trainer-0", Stop(**job.who("trainer-0"), reason="good enough"))
    for stage in range(3):
        assert isinstance(job.lease("trainer-0", stage=stage), StageOver)


def test_a_part_whose_uploader_left_is_uploaded_by_another(make_job: Any) -> None:
    job = make_job(pace=Async())
    job.serve()
    spec = PartSpec(0, (ParameterSpec(("w",), (8,), "float32"),), None, (), Async())
    job.join("trainer-0")
    assert job.get("trainer-0", SharePart(**job.who("trainer-0"), spec=spec)).upload
    job.get("trainer-0", Leave(**job.who("trainer-0")))
    job.join("trainer-1")
    assert job.get("trainer-1", SharePart(**job.who("trainer-1"), spec=spec)).upload


def test_a_part_shared_otherwise_before_there_are_servers_is_refused_too(
    make_job: Any,
) -> None:
    job = make_job(trainers=2, pace=Async())
    job.serve()
    job.join("trainer-0")
    job.join("trainer-1")
    for server in job.servers:
        server.is_deaf = True  # nothing can be planned: both are parked
    asked = []
    for trainer, strategy in (("trainer-0", ""), ("trainer-1", "Hasty(by=2)")):
        spec = PartSpec(
            0, (ParameterSpec(("w",), (8,), "float32"),), None, (), Async(), strategy
        )
        asked.append(job.ask(trainer, SharePart(**job.who(trainer), spec=spec)))
    for server in job.servers:
        server.is_deaf = False
    job.serve()
    first, second = (job.answers.get(ticket) for ticket in asked)
    assert isinstance(first, PartAnswer)
    assert isinstance(second, Refusal)
    assert second.kind == "mismatch"
    assert "Hasty(by=2)" in second.text


def test_those_without_a_break_for_longest_are_named_first() -> None:
    queue = Queue()
    for task in range(5):
        lease = Lease(token=task + 1, key=TaskKey(0, 0, task), first=0)
        queue.lend(task, LeaseRecord(lease, f"trainer-{9 - task}", task + 1))
    assert queue.first_holders(2) == ["trainer-9", "trainer-8"]
    queue.close(0)
    assert queue.first_holders(2) == ["trainer-8", "trainer-7"]
    assert len(queue.first_holders(10)) == queue.num_holders() == 4
