"""One object and one exit code at the end of every run."""

import json

import msgspec
import pytest

from paceline.messages.watching import JobStatus, QueueStatus, Trained
from paceline.watch.summary import (
    EXIT_CODES,
    NEVER_CONNECTED,
    Ending,
    Restarts,
    RunTime,
    Verdict,
    decide_ending,
    summarize,
    where_it_stands,
)

NOTHING = QueueStatus(0, 0, 0, 0, 0)


def status(
    queue: QueueStatus = NOTHING,
    tasks_failed: int = 0,
    stopped: str | None = None,
    error: str | None = None,
) -> JobStatus:
    return JobStatus(
        state="running",
        queue=queue,
        pace="sync",
        processes=(),
        epochs=2,
        records=1000,
        tasks_done=8,
        tasks_failed=tasks_failed,
        steps=50,
        metrics={"loss": 0.5, "broken": None},
        total_records=1000,
        timeline=0,
        cut=3,
        counters={"duplicates": 1, "part-0.value_bytes_sent": 8},
        stopped=stopped,
        error=error,
    )


@pytest.mark.parametrize(
    ("last", "ending", "exit_code"),
    [
        (status(), Ending.TRAINED, 0),
        (status(tasks_failed=1), Ending.GAVE_UP, 3),
        (status(stopped="enough", tasks_failed=1), Ending.STOPPED, 0),
        (status(QueueStatus(2, 1, 0, 0, 0), stopped="enough"), Ending.STOPPED, 0),
        (status(QueueStatus(2, 0, 0, 0, 0)), Ending.FAILED, 1),
        (status(QueueStatus(0, 1, 0, 0, 0)), Ending.FAILED, 1),
        (status(error="broken", stopped="enough"), Ending.FAILED, 1),
    ],
)
def test_the_last_word_decides_the_ending(
    last: JobStatus, ending: Ending, exit_code: int
) -> None:
    verdict = decide_ending(last)

    assert (verdict.ending, verdict.exit_code) == (ending, exit_code)


def test_an_interrupted_run_asks_to_be_started_again() -> None:
    assert Verdict(Ending.INTERRUPTED, "").exit_code == 75
    assert set(EXIT_CODES) == set(Ending)


def test_records_left_untrained_say_what_to_do() -> None:
    verdict = decide_ending(status(QueueStatus(2, 1, 0, 0, 4)))

    assert "3 tasks of epoch 3 are not trained" in verdict.reason
    assert "--resume goes on with them" in verdict.reason
    assert "session.stop(reason)" in verdict.reason


def test_records_that_all_trainers_went_on_from_are_counted_and_fail_the_run() -> None:
    left = msgspec.structs.replace(
        status(), records=960, total_records=8000, left_out=7040, left_epoch=1
    )
    verdict = decide_ending(left)

    assert verdict.exit_code == 1
    assert "left a loop early (by break" in verdict.reason
    assert "in epoch 1: 7,040 of 8,000 records are left out" in verdict.reason
    summary = summarize(left, verdict, Restarts(), 4.0, "/job", RunTime(0.0))
    assert (summary.status, summary.records_left_out) == ("failed", 7040)


def test_records_left_out_by_a_stop_are_no_failure() -> None:
    left = msgspec.structs.replace(
        status(stopped="enough"), records=960, total_records=8000
    )
    assert decide_ending(left).exit_code == 0
    summary = summarize(
        left, Verdict(Ending.STOPPED, "enough"), Restarts(), 4.0, "/job", RunTime(0.0)
    )
    assert summary.records_left_out == 7040


def test_a_failed_run_says_how_far_it_came() -> None:
    said = where_it_stands(msgspec.structs.replace(status(), total_records=8000))
    assert said.startswith("in epoch 2, 1,000 of 8,000 records are trained; --resume")


def test_an_evaluation_that_is_left_is_called_so() -> None:
    left = status(QueueStatus(2, 1, 0, 0, 0))
    verdict = decide_ending(msgspec.structs.replace(left, kind="evaluate"))

    assert verdict.ending is Ending.FAILED
    assert "3 tasks of an evaluation are left" in verdict.reason


def test_the_summary_has_exactly_the_promised_fields() -> None:
    restarts = Restarts(coordinator=1, server=2, trainer=3)

    trained = Trained(since_s=4.0, seconds=2.0, records=0)
    last = msgspec.structs.replace(status(tasks_failed=1), trained=trained)
    time = RunTime(0.0)
    time.note(last, 5.5)

    summary = summarize(last, Verdict(Ending.GAVE_UP, "why"), restarts, 6.0, "/job", time)

    assert json.loads(json.dumps(summary.as_dict())) == {
        "status": "finished",
        "epochs": 2,
        "records": 1000,
        "tasks": {"done": 8, "failed": 1},
        "steps": 50,
        "seconds": 6.0,
        "records_per_second": 500.0,
        "metrics": {"loss": 0.5, "broken": None},
        "restarts": {"coordinator": 1, "server": 2, "trainer": 3},
        "job_dir": "/job",
        "counters": {"duplicates": 1, "part-0.value_bytes_sent": 8},
        "records_left_out": 0,
        "start_seconds": 1.5,
        "ending": "gave up",
        "reason": "why",
    }


@pytest.mark.parametrize(
    ("ending", "word"),
    [
        (Ending.TRAINED, "finished"),
        (Ending.GAVE_UP, "finished"),
        (Ending.STOPPED, "stopped"),
        (Ending.INTERRUPTED, "stopped"),
        (Ending.FAILED, "failed"),
    ],
)
def test_a_run_whose_coordinator_never_spoke_has_a_summary_too(
    ending: Ending, word: str
) -> None:
    summary = summarize(None, Verdict(ending, ""), Restarts(), 0.0, "/job", RunTime(0.0))

    assert summary.status == word
    assert summary.records == summary.records_per_second == 0
    assert summary.start_seconds is None


def test_a_script_that_never_connects_has_trained_nothing_together() -> None:
    alone = msgspec.structs.replace(status(QueueStatus(0, 0, 0, 0, 0)), has_trainers=False)
    assert decide_ending(alone).reason == NEVER_CONNECTED
    assert decide_ending(alone).exit_code == 1
