"""A job as a row: what a list says of one that runs, has ended, or said nothing."""

import msgspec
import pytest

from paceline.config import Async, JobConfig
from paceline.messages.waits import Wait
from paceline.watch.row import (
    begun_row,
    died_row,
    ended_row,
    loss_of,
    running_row,
)
from tests.watch.summaries import summary
from tests.watch.test_progress import status

ROW = begun_row("job", 5.0, JobConfig(run="r", trainers=3, servers=2, pace=Async()))


def test_a_job_that_has_begun_is_known_by_its_config() -> None:
    assert (ROW.state, ROW.kind, ROW.pace) == ("starting", "runs", "async")
    assert (ROW.trainers, ROW.servers, ROW.records) == (3, 2, None)


def test_a_running_job_tells_how_far_and_how_fast_it_is() -> None:
    row = running_row(ROW, status(10_240), 4120.4)

    assert (row.state, row.pace, row.trainers, row.servers) == ("running", "sync", 1, 1)
    assert (row.records, row.total, row.rate) == (10_240, 20_000, 4120.4)
    assert (row.logged, row.note, row.begun_t) == (("loss", 0.69314), "", 5.0)


def test_who_is_waited_for_is_told_in_the_list_already() -> None:
    wait = Wait("round", "its pushes are missing", ("trainer-2",), since_s=12.25)
    job = status(10)
    late = msgspec.structs.replace(job.processes[0], wait=wait)

    row = running_row(ROW, msgspec.structs.replace(job, processes=(late,)), None)

    assert (
        row.note == "trainer-2 is waited for (round) by trainer-0, the longest since 12 s"
    )


def test_what_a_pace_change_waits_for_is_told() -> None:
    job = msgspec.structs.replace(status(10), changing="waits for tasks")

    assert running_row(ROW, job, None).note == "waits for tasks"


@pytest.mark.parametrize(
    ("ending", "state", "code", "note"),
    [
        ("trained", "finished", 0, ""),
        ("gave up", "finished", 3, "gave up: why"),
        ("failed", "failed", 1, "failed: why"),
        ("interrupted", "stopped", 75, "interrupted: why"),
        ("stopped", "stopped", 0, "stopped: why"),
    ],
)
def test_an_ended_job_tells_its_exit_code_and_why(
    ending: str, state: str, code: int, note: str
) -> None:
    row = ended_row(ROW, summary(ending), status(640, total=1000))

    assert (row.kind, row.state, row.code, row.note) == ("ended", state, code, note)
    assert (row.records, row.total, row.lasted_s, row.pace) == (640, 1000, 12.5, "sync")


def test_an_older_summary_has_no_exit_code_and_no_reason() -> None:
    row = ended_row(ROW, summary("", ""), None)

    assert (row.code, row.note, row.pace, row.total) == (None, "", "async", 0)


def test_a_job_without_a_word_says_how_it_is_gone_on_with() -> None:
    row = died_row(ROW, 66.0, "paceline run --resume")

    assert (row.kind, row.lasted_s) == ("died", 66.0)
    assert row.note.endswith("go on with: paceline run --resume")


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        ({}, None),
        ({"accuracy": 0.9, "loss": 0.1}, ("loss", 0.1)),
        ({"accuracy": 0.9, "val_Loss": None}, ("val_Loss", None)),
        ({"x" * 100: 1.0}, ("x" * 80, 1.0)),
    ],
)
def test_of_numbers_the_loss_is_told(
    metrics: dict[str, float | None], told: tuple[str, float | None] | None
) -> None:
    assert loss_of(metrics) == told
