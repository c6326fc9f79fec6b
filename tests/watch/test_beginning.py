"""A resumed run says once where it goes on, and what it has passed over."""

import io
import time

import msgspec
import pytest

from paceline.messages.watching import Resumed
from paceline.watch.progress import open_show
from tests.watch.test_progress import Terminal, status


def shown(resumed: Resumed | None, output: io.StringIO) -> str:
    """What is said when the status comes twice."""
    show = open_show(output)
    for now in (0.0, 0.2):
        show.show(msgspec.structs.replace(status(10), resumed=resumed), 0, now)
    show.close()
    return output.getvalue()


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_checkpoint_time_records_and_pace_are_told_and_what_was_passed_over() -> None:
    resumed = Resumed(12, 5120, 1764000000.0, ("cut-000013-t1: damaged",))
    assert shown(resumed, io.StringIO()) == (
        "goes on from checkpoint 12 of 2025-11-24 16:00:00, 5,120 records, at sync\n"
        "passed over: cut-000013-t1: damaged\n"
    )


def test_a_terminal_tells_it_above_the_bar_once() -> None:
    text = shown(Resumed(12, 5120, 1764000000.0, ()), Terminal())
    assert text.count("goes on from checkpoint 12") == 1


def test_the_pace_is_the_one_that_the_job_was_changed_to() -> None:
    output = io.StringIO()
    show = open_show(output)
    resumed = Resumed(12, 5120, 1764000000.0, ())
    changed = msgspec.structs.replace(status(10), resumed=resumed, pace="ssp:3")
    show.show(changed, 0, 0.0)
    assert output.getvalue().endswith("5,120 records, at ssp:3\n")


def test_a_job_without_a_checkpoint_begins_anew() -> None:
    text = shown(Resumed(None, 0, 0.0, ()), io.StringIO())
    assert text == "goes on without a checkpoint: none is there, so the job begins anew\n"


def test_a_first_run_tells_nothing() -> None:
    assert not shown(None, io.StringIO())
