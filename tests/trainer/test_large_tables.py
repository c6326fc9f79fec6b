"""More than a request can carry goes in several, or is refused before it is sent."""

import numpy as np
import pytest

from paceline.config import Async
from paceline.errors import UsageError
from paceline.messages.data import PullRows
from tests.trainer.fake_job import FakeJob

ROWS, MOST = 50, 8  # rows of a request, of 2 floats and an id each


def test_a_pull_goes_in_several_requests() -> None:
    job = FakeJob(servers=1, pace=Async())
    session = job.session()
    table = session.table("t", (ROWS, 2))
    table.push(np.arange(ROWS), np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2))
    table._rows.most_bytes = MOST * 16
    before = len(job.sent)
    found = table.pull()
    asked = [m for _, m in job.sent[before:] if isinstance(m, PullRows)]
    assert found.tolist() == np.arange(2 * ROWS).reshape(ROWS, 2).tolist()
    assert [sum(m.rows[0].counts) for m in asked] == [MOST] * 6 + [2]
    session.close()


def test_a_push_is_refused_before_anything_is_sent() -> None:
    job = FakeJob(servers=1, pace=Async())
    session = job.session()
    table = session.table("t", (None, 2))
    table._rows.most_bytes = MOST * 16
    table.push(np.arange(MOST), np.ones(2, np.float32))
    before = len(job.sent)
    with pytest.raises(UsageError, match="9 rows of table 't' for server-0, and a"):
        table.push(np.arange(MOST + 1), np.ones(2, np.float32))
    assert len(job.sent) == before
    assert table.pull([0, MOST]).tolist() == [[1, 1], [0, 0]]
    session.close()


def test_a_beginning_is_refused_with_how_many_rows_are_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "paceline.trainer.rows.table_rows.TableRows._most_rows", lambda _: MOST
    )
    session = FakeJob(servers=1, pace=Async()).session()
    with pytest.raises(UsageError, match=r"init: 50 rows .* a request carries 8 of them"):
        session.table("t", (ROWS, 2), init=np.ones((ROWS, 2), np.float32))
    session.close()
