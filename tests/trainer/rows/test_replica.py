"""A trainer's copy of a table: gone with its timeline, and when an answer is lost."""

from typing import Any

import numpy as np
import pytest

from paceline.config import Async
from paceline.messages.data import PullRows
from paceline.messages.shared import Message
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA


@pytest.fixture
def job() -> FakeJob:
    return FakeJob(servers=2, pace=Async())


def pulls(job: FakeJob) -> int:
    """Moments at which rows were asked of both servers."""
    return len(job.of(PullRows)) // 2


def test_rows_are_asked_for_behind_the_push_and_once_a_period(
    job: FakeJob, session: Session
) -> None:
    table = session.table("t", (8,), replicate_every=2)
    asked = []
    for batch in session.batches(DATA, 2, shuffle=False):
        table.pull([0, 3])
        asked.append(pulls(job))
        table.push([0, 3], np.array([1, 2]) * float(batch[0]))
        assert pulls(job) == asked[-1]
    assert asked == [1, 1, 2, 2, 3, 3]
    assert table.pull([0, 3]).tolist() == [30, 60]


def test_a_copy_is_fetched_anew_on_another_timeline(job: FakeJob, session: Session) -> None:
    table = session.table("t", (8,), replicate_every=99)
    asked, seen = [], []

    def loop() -> None:
        for batch in session.batches(DATA, 2, shuffle=False):
            seen.append(int(batch[0]))
            if len(seen) == 3:
                job.leave_timeline()
            table.pull([0])
            asked.append(pulls(job))
            table.push([0], [1.0])

    with pytest.warns(StepWarning, match="timeline 0 was left"):
        loop()
    assert seen == [0, 2, 4, 0, 2, 4, 6, 8, 10]
    assert asked == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    # The fake servers return to no cut: two batches' pushes are there twice.
    assert table.pull([0]) == 8


def test_a_batch_that_is_undone_is_in_no_copy(job: FakeJob, session: Session) -> None:
    table = session.table("t", (8,), replicate_every=99)
    seen: list[float] = []

    def loop() -> None:
        for _ in session.batches(DATA, 2, shuffle=False):
            if len(seen) == 2:
                job.leave_timeline()
                _ = session.records  # learns of it, and joins again
            table.push([0], [1.0])
            seen.append(float(table.pull([0])[0]))

    with pytest.warns(StepWarning, match="timeline 0 was left"):
        loop()
    assert seen == [1, 2, 3, 3, 4, 5, 6, 7, 8]
    assert table.pull([0]) == 8


def test_a_lost_answer_is_asked_for_again_when_rows_are_read(
    job: FakeJob, session: Session
) -> None:
    table = session.table("t", (8,), replicate_every=2)
    lost: list[Any] = []

    def lose_second(_: str, message: Message) -> bool:
        is_lost = isinstance(message, PullRows) and pulls(job) == 2 and len(lost) < 1
        lost.extend([message] * is_lost)
        return is_lost

    job.lose = lose_second
    for number, _ in enumerate(session.batches(DATA, 2, shuffle=False)):
        assert table.pull([0, 5]).tolist() == [number, 2 * number]
        table.push([0, 5], [1.0, 2.0])
    assert lost
    assert table.pull([0, 5]).tolist() == [6, 12]
