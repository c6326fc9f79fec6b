"""What evaluations come to is bounded, told in pages, and lies where it is told."""

import msgspec
import pytest

from paceline.coordinator.decisions import results as results_of
from paceline.coordinator.durable.queue import decode_queue, encode_queue
from paceline.messages.results import FinishTask, KeepValue, KeptBytes, Results
from paceline.messages.shared import Done
from paceline.messages.trainer import StageOver
from tests.coordinator.conftest import Job
from tests.coordinator.durable.test_evaluations import (
    evaluate_all,
    evaluating,
    finish,
    keep,
    lose_server,
    results,
)


@pytest.fixture
def job() -> Job:
    """One trainer in front of an evaluation, the job's first stage."""
    return evaluating("trainer-0")


def test_many_results_come_in_pages(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_of, "MAX_RESULT_BYTES", 100)
    large = bytes(50)
    for _ in range(4):
        finish(job, "trainer-0", job.lease("trainer-0"), large)
    assert isinstance(job.lease("trainer-0"), StageOver)
    first = results(job, "trainer-0")
    assert (sorted(first.states), first.following) == ([0, 1], 2)
    second = results(job, "trainer-0", first=2)
    assert (sorted(second.states), second.following) == ([2, 3], None)


def test_what_lies_beside_the_cuts_is_told_by_where_it_lies(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_of, "MAX_RESULT_BYTES", 100)
    kept = {task: KeptBytes(f"{task:032x}", 50) for task in range(4)}
    for task in range(4):
        lease = job.lease("trainer-0")
        if task == 3:
            assert finish(job, "trainer-0", lease, b"light") == Done()
            continue
        message = FinishTask(
            **job.who("trainer-0"), token=lease.token, result=b"", kept=kept[task]
        )
        assert job.get("trainer-0", message) == Done()
    assert isinstance(job.lease("trainer-0"), StageOver)
    job.restart()
    job.serve()
    first = results(job, "trainer-0")
    assert (first.kept_states, first.following) == ({0: kept[0], 1: kept[1]}, 2)
    rest = results(job, "trainer-0", first=2)
    assert (rest.kept_states, rest.states) == ({2: kept[2]}, {3: b"light"})
    message = KeepValue(**job.who("trainer-0"), stage=0, value=b"", kept=kept[0])
    assert job.get("trainer-0", message) == Results(kept=kept[0])
    assert keep(job, "trainer-0", b"second") == Results(kept=kept[0])
    lose_server(job)
    job.join("trainer-0", job.trainers["trainer-0"])
    assert results(job, "trainer-0") == Results(kept=kept[0])
    assert len(encode_queue(job.state.durable.queue)) < 500


def test_sizes_count_wherever_the_bytes_lie(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_of, "STAGE_BYTES", 100)
    finish(job, "trainer-0", job.lease("trainer-0"), bytes(60))
    token = job.lease("trainer-0").token
    large = KeptBytes("0" * 32, 60)
    message = FinishTask(**job.who("trainer-0"), token=token, result=b"", kept=large)
    refusal = job.get("trainer-0", message)
    assert refusal.kind == "invalid"
    assert "the state is too large: the results of stage 0 have 120 bytes" in refusal.text


def test_a_value_that_is_too_large_is_refused(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_all(job, "trainer-0")
    monkeypatch.setattr(results_of, "MAX_RESULT_BYTES", 100)
    refusal = keep(job, "trainer-0", bytes(101))
    assert (refusal.kind, refusal.text) == (
        "invalid",
        "a value of 101 bytes is too large, the limit is 100",
    )


def test_results_as_an_older_version_wrote_them_are_read() -> None:
    class StageResultsThen(msgspec.Struct):
        states: dict[int, bytes] = {}
        value: bytes | None = None
        missing: int = 0

    class QueueThen(msgspec.Struct):
        stage: int
        results: dict[int, StageResultsThen]

    then = QueueThen(
        2, {0: StageResultsThen({}, b"v" * 999, 1), 1: StageResultsThen({5: b"r"})}
    )
    queue = decode_queue(msgspec.msgpack.encode(then))
    assert (queue.results[0].value, queue.results[0].missing) == (b"v" * 999, 1)
    assert queue.results[0].has_value()
    assert (queue.results[1].tasks(), queue.results[1].has_value()) == ([5], False)


def test_results_beyond_a_limit_are_refused_by_what_to_do(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_of, "STAGE_BYTES", 100)
    finish(job, "trainer-0", job.lease("trainer-0"), bytes(60))
    refusal = finish(job, "trainer-0", job.lease("trainer-0"), bytes(60))
    assert refusal.kind == "invalid"
    assert "have 120 bytes, the limit is 100" in refusal.text
    assert "thresholds=" in refusal.text
