"""Evaluations are stages: counted once, kept over deaths, run after an early stop."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.config import Async
from paceline.coordinator.durable.outcomes import CutCommitted
from paceline.messages.results import AskResults, FinishTask, KeepValue, Results
from paceline.messages.shared import Done, Lease, StageSpec
from paceline.messages.trainer import (
    AskLease,
    Beat,
    BeginStage,
    FailTask,
    HandBack,
    StageOver,
    Stop,
    TrackedKept,
)
from tests.coordinator.conftest import STAGE, Job

TRAIN = msgspec.structs.replace(STAGE, epochs=1)  # 4 tasks of 5 batches of 2 records
EVALUATION = msgspec.structs.replace(
    STAGE, epochs=1, shuffle=False, kind="evaluate", tracked=("scheduler",)
)


@pytest.fixture
def job() -> Job:
    """One trainer in front of an evaluation, the job's first stage."""
    return evaluating("trainer-0")


def evaluating(*trainers: str, **options: Any) -> Job:
    job = Job(trainers=len(trainers), pace=Async(), **options)
    job.open(*trainers, stage=EVALUATION)
    return job


def finish(job: Job, trainer: str, lease: Lease, result: bytes = b"") -> Any:
    result = result or b"task %d" % lease.key.task
    message = FinishTask(**job.who(trainer), token=lease.token, result=result)
    return job.get(trainer, message)


def evaluate_all(job: Job, trainer: str, stage: int = 0) -> list[int]:
    """Work off what is left; its tasks."""
    tasks = []
    while isinstance(lease := job.lease(trainer, stage=stage), Lease):
        assert finish(job, trainer, lease) == Done()
        tasks.append(lease.key.task)
    assert isinstance(lease, StageOver)
    return tasks


def results(job: Job, trainer: str, stage: int = 0, first: int = 0) -> Results:
    message = AskResults(**job.who(trainer), stage=stage, first=first)
    found = job.get(trainer, message)
    assert isinstance(found, Results)
    return found


def keep(job: Job, trainer: str, value: bytes, stage: int = 0) -> Any:
    return job.get(trainer, KeepValue(**job.who(trainer), stage=stage, value=value))


def begin(job: Job, trainer: str, spec: StageSpec) -> None:
    assert job.get(trainer, BeginStage(**job.who(trainer), spec=spec)) == Done()


def stop(job: Job, trainer: str) -> None:
    job.get(trainer, Stop(**job.who(trainer), reason="good enough"))


ALL = {task: b"task %d" % task for task in range(4)}


def test_results_are_there_when_the_stage_is_over_and_no_record_was_trained(
    job: Job,
) -> None:
    assert evaluate_all(job, "trainer-0") == [0, 1, 2, 3]
    assert results(job, "trainer-0") == Results(states=ALL)
    status = job.state.status()
    assert (status.records, status.epochs, status.total_records) == (0, 0, 0)
    assert status.tasks_done == 4


def test_a_status_says_what_the_tasks_are_for(job: Job) -> None:
    assert job.state.status().kind == "evaluate"
    evaluate_all(job, "trainer-0")
    assert job.state.status().kind == "train"


def test_a_status_says_how_far_an_evaluation_is(job: Job) -> None:
    status = job.state.status()
    assert (status.stage_records, status.stage_total) == (0, 40)
    finish(job, "trainer-0", job.lease("trainer-0"))
    job.lease("trainer-0")  # held, and not done
    status = job.state.status()
    assert (status.stage_records, status.stage_total) == (10, 40)


def test_a_kind_that_is_the_default_is_not_on_the_wire() -> None:
    assert b"kind" not in msgspec.msgpack.encode(TRAIN)
    decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(EVALUATION), type=StageSpec)
    assert decoded == EVALUATION


def test_a_finish_that_is_repeated_is_stale_and_counts_once(job: Job) -> None:
    lease = job.lease("trainer-0")
    assert finish(job, "trainer-0", lease) == Done()
    assert finish(job, "trainer-0", lease, b"other").kind == "stale"
    evaluate_all(job, "trainer-0")
    assert results(job, "trainer-0").states == ALL


def test_a_task_of_training_is_not_finished_by_a_result() -> None:
    job = Job(pace=Async())
    job.open("trainer-0", stage=TRAIN)
    refusal = finish(job, "trainer-0", job.lease("trainer-0"))
    assert refusal.kind == "invalid"
    assert "stage 0 is training" in refusal.text


def test_the_first_value_is_the_value_and_results_are_kept_no_longer(job: Job) -> None:
    evaluate_all(job, "trainer-0")
    assert keep(job, "trainer-0", b"first").value == b"first"
    assert keep(job, "trainer-0", b"second").value == b"first"
    assert results(job, "trainer-0") == Results(value=b"first")
    assert not job.state.durable.queue.results[0].states


def test_no_value_is_kept_of_a_stage_that_is_not_over(job: Job) -> None:
    finish(job, "trainer-0", job.lease("trainer-0"))
    assert keep(job, "trainer-0", b"too early").kind == "invalid"


def test_a_lost_trainers_task_is_evaluated_again_from_its_beginning() -> None:
    job = evaluating("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    other = job.lease("trainer-1")
    lost = job.answers[ticket].lease
    old = job.who("trainer-0")
    job.lose("trainer-0")
    finish(job, "trainer-1", other)
    again = job.lease("trainer-1")
    assert (again.key, again.first, again.edges) == (lost.key, 0, ())
    assert again.token > lost.token
    late = FinishTask(**old, token=lost.token, result=b"late")
    assert job.get("trainer-0", late).kind == "fenced"
    finish(job, "trainer-1", again)
    evaluate_all(job, "trainer-1")
    assert results(job, "trainer-1").states == ALL


def test_a_restarted_coordinator_has_the_results(job: Job) -> None:
    lease = job.lease("trainer-0")
    finish(job, "trainer-0", lease)
    job.restart()
    job.serve()
    assert evaluate_all(job, "trainer-0") == [1, 2, 3]
    assert results(job, "trainer-0").states == ALL


def test_a_lost_server_reopens_what_no_cut_has_and_nothing_is_there_twice(job: Job) -> None:
    finish(job, "trainer-0", job.lease("trainer-0"))
    lose_server(job)
    job.join("trainer-0", job.trainers["trainer-0"])
    assert evaluate_all(job, "trainer-0") == [0, 1, 2, 3]
    assert results(job, "trainer-0").states == ALL


def test_a_value_that_was_told_survives_the_return_to_a_cut_before_it(job: Job) -> None:
    evaluate_all(job, "trainer-0")
    keep(job, "trainer-0", b"told")
    lose_server(job)
    job.join("trainer-0", job.trainers["trainer-0"])
    assert results(job, "trainer-0") == Results(value=b"told")


def test_a_value_that_comes_while_the_next_stage_ends_is_kept() -> None:
    job = evaluating("trainer-0", "trainer-1")
    ticket = job.ask("trainer-1", _ask(job, "trainer-1"))
    finish(job, "trainer-0", job.lease("trainer-0"))
    finish(job, "trainer-1", job.answers[ticket].lease)
    evaluate_all(job, "trainer-0")
    begin(job, "trainer-0", msgspec.structs.replace(EVALUATION, stage=1))
    for server in job.servers:
        server.is_writing = True
    while isinstance(lease := job.lease("trainer-0", stage=1), Lease):
        finish(job, "trainer-0", lease)
    assert keep(job, "trainer-1", b"told").value == b"told"
    for server in job.servers:
        server.is_writing = False
        server.pinned_cut = -1
    job.wait(2)
    assert job.state.durable.queue.stage == 2
    assert results(job, "trainer-1") == Results(value=b"told")


def test_a_given_up_task_leaves_the_rest_and_is_counted(job: Job) -> None:
    for _ in range(3):
        lease = job.lease("trainer-0")
        job.get(
            "trainer-0",
            FailTask(**job.who("trainer-0"), token=lease.token, acked=-1, error="bad"),
        )
    assert evaluate_all(job, "trainer-0") == [1, 2, 3]
    found = results(job, "trainer-0")
    assert (sorted(found.states), found.missing) == ([1, 2, 3], 1)
    assert keep(job, "trainer-0", b"value").missing == 1
    assert job.state.status().tasks_failed == 1


def test_everybody_who_evaluates_loads_the_tracked_state_of_the_cut() -> None:
    job = Job(pace=Async())
    tracked = ("scheduler",)
    job.open("trainer-0", stage=msgspec.structs.replace(TRAIN, tracked=tracked))
    while isinstance(lease := job.lease("trainer-0"), Lease):
        job.finish("trainer-0", lease)
    assert lease.track, "the stage ends with its state"
    kept = TrackedKept(**job.who("trainer-0"), number=77, rounds={})
    assert job.get("trainer-0", kept) == Done()
    assert isinstance(job.lease("trainer-0"), StageOver)
    begin(job, "trainer-0", msgspec.structs.replace(EVALUATION, stage=1))
    assert job.lease("trainer-0", stage=1).tracked == 77, "the one who kept it, too"


def test_a_token_of_another_trainer_is_stale() -> None:
    job = evaluating("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    job.lease("trainer-1")
    lease = job.answers[ticket].lease
    assert finish(job, "trainer-1", lease).kind == "stale"
    assert finish(job, "trainer-0", lease) == Done()


def test_evaluated_batches_are_progress_and_their_duration_is_not_learned(job: Job) -> None:
    lease = job.lease("trainer-0")
    for second in range(150):
        job.wait(1)
        beat = Beat(**job.who("trainer-0"), clock=0, state="x", evaluated=second // 30)
        job.get("trainer-0", beat)
    assert finish(job, "trainer-0", lease) == Done()
    lease = job.lease("trainer-0")
    for _ in range(61):
        job.wait(1)
        job.get("trainer-0", Beat(**job.who("trainer-0"), clock=0, state="x", evaluated=4))
    assert finish(job, "trainer-0", lease).kind == "fenced"
    assert job.state.durable.queue.timeouts == {1: 1}


def _ask(job: Job, trainer: str) -> Any:
    return AskLease(**job.who(trainer), stage=0)


def lose_server(job: Job) -> None:
    """A server dies and comes back; all stand at the last cut again."""
    server = job.servers[0]
    server.incarnation, server.parts, server.answers = 0, {}, ()
    job.wait(1)


# ---------------------------------------------------------------- early stops


def training(*trainers: str) -> Job:
    job = Job(trainers=len(trainers), pace=Async())
    job.open(*trainers, stage=TRAIN)
    return job


def test_after_a_stop_an_evaluation_runs() -> None:
    job = training("trainer-0")
    job.finish("trainer-0", job.lease("trainer-0"))
    stop(job, "trainer-0")
    assert isinstance(job.lease("trainer-0"), StageOver)
    begin(job, "trainer-0", msgspec.structs.replace(EVALUATION, stage=1))
    assert evaluate_all(job, "trainer-0", stage=1) == [0, 1, 2, 3]
    assert results(job, "trainer-0", stage=1).states == ALL


def test_loops_that_nobody_has_begun_are_jumped_over_with_one_cut() -> None:
    job = training("trainer-0")
    stop(job, "trainer-0")
    for stage in range(5):
        begin(job, "trainer-0", msgspec.structs.replace(TRAIN, stage=stage))
        assert isinstance(job.lease("trainer-0", stage=stage), StageOver)
    begin(job, "trainer-0", msgspec.structs.replace(EVALUATION, stage=5))
    assert evaluate_all(job, "trainer-0", stage=5) == [0, 1, 2, 3]
    ends = [o for o in job.outcomes if isinstance(o, CutCommitted) and o.ends_stage]
    assert len(ends) == 2, "to jump, and at the end"
    assert job.state.durable.queue.stage == 6


def test_an_evaluation_that_runs_is_not_ended_by_a_stop() -> None:
    job = evaluating("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    other = job.lease("trainer-1")
    stop(job, "trainer-1")
    finish(job, "trainer-1", other)
    finish(job, "trainer-0", job.answers[ticket].lease)
    assert evaluate_all(job, "trainer-0") == [2, 3]
    assert results(job, "trainer-1").states == ALL


def test_a_stopped_loop_behind_an_evaluation_waits_for_it() -> None:
    job = evaluating("trainer-0", "trainer-1")
    ticket = job.ask("trainer-0", _ask(job, "trainer-0"))
    other = job.lease("trainer-1")
    stop(job, "trainer-1")
    job.get(
        "trainer-1", HandBack(**job.who("trainer-1"), tokens=(other.token,), acked=(-1,))
    )
    begin(job, "trainer-1", msgspec.structs.replace(TRAIN, stage=1))
    assert job.lease("trainer-1", stage=1) is None, "an evaluation is under way"
    finish(job, "trainer-0", job.answers[ticket].lease)
    evaluate_all(job, "trainer-0")
    assert isinstance(job.lease("trainer-1", stage=1), StageOver)


# ---------------------------------------------------------------- any order

STEPS = st.lists(
    st.sampled_from(
        ["finish 0", "finish 1", "die 0", "die 1", "server", "restart", "stop", "cut"]
    ),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_whatever_happens_every_task_counts_once(steps: list[str]) -> None:
    job = evaluating("trainer-0", "trainer-1", cut_every_s=1.0)
    for trainer in job.trainers:
        job.ask(trainer, _ask(job, trainer))
    job.serve()
    for step in steps:
        _happen(job, step)
    _join_if_lost(job, "trainer-0")
    job.lose("trainer-1")
    evaluate_all(job, "trainer-0")
    assert results(job, "trainer-0").states == ALL
    assert job.state.status().records == 0


def _happen(job: Job, step: str) -> None:
    match step.split():
        case ["finish", number]:
            trainer = f"trainer-{number}"
            _join_if_lost(job, trainer)
            lease = job.lease(trainer)
            if isinstance(lease, Lease):
                finish(job, trainer, lease)
        case ["die", number]:
            job.lose(f"trainer-{number}")
        case ["server"]:
            lose_server(job)
        case ["restart"]:
            job.restart()
            job.serve()
            for trainer in job.trainers:  # or their silence would be waited for
                job.get(trainer, Beat(**job.who(trainer), clock=0, state="x"))
        case ["stop"]:
            _join_if_lost(job, "trainer-0")
            stop(job, "trainer-0")
        case ["cut"]:
            job.wait(1.5)


def _join_if_lost(job: Job, trainer: str) -> None:
    job.join(trainer, job.trainers[trainer])
