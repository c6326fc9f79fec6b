"""Journals that versions with today's format have written are read, record for record."""

import json
import shutil
from pathlib import Path

import pytest

from paceline.config import Adagrad, Sync
from paceline.coordinator.durable import Durable
from paceline.coordinator.storage import read_journal
from paceline.ids import TaskKey
from paceline.store.journal import FORMAT, Journal

KEPT = Path(__file__).parents[1] / "kept"
VERSIONS = sorted(
    path.parent.name
    for path in KEPT.glob("*/job.json")
    if json.loads(path.read_text()).get("journal_format") == FORMAT
)
RECORDS_BEHIND_THE_CUT = 19


@pytest.fixture(params=VERSIONS)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Durable:
    """What the journal of a kept folder adds up to."""
    shutil.copy(KEPT / request.param / "journal.sqlite", tmp_path)
    journal = Journal(tmp_path / "journal.sqlite")
    try:
        assert journal.num_records == 1 + RECORDS_BEHIND_THE_CUT
        return read_journal(journal)
    finally:
        journal.close()


def test_the_queue_stands_where_the_job_was_killed(state: Durable) -> None:
    queue = state.queue
    assert (queue.stage, queue.epoch, queue.epochs_done) == (0, 1, 1)
    assert (queue.records, queue.tasks_done, queue.next_fresh) == (80, 10, 3)
    [record] = queue.pending.values()
    assert record.lease.key == TaskKey(0, 1, 2)
    assert (record.trainer, record.incarnation, record.lease.token) == ("trainer-0", 2, 11)


def test_rounds_and_the_last_cut_are_those_of_the_moment(state: Durable) -> None:
    assert state.committed_rounds() == {0: 11, 1: 0}
    assert state.round_records == 88
    assert [last.round for last in state.parts[0].recent] == [10, 11]
    assert state.cut is not None
    assert (state.cut.cut, state.cut.steps, state.cut.parts) == (1, 5, (0, 1))


def test_parts_are_what_the_script_has_shared(state: Durable) -> None:
    model, counts = state.trained().values()
    assert model.pace == Sync()
    assert [spec.names[0] for spec in model.parameters][:2] == [
        "hidden.weight",
        "hidden.bias",
    ]
    [rows] = model.tables
    assert (rows.name, rows.dim, rows.optimizer) == ("user", 4, Adagrad(lr=0.1))
    assert [table.name for table in counts.tables] == ["counts"]
    assert state.stages[0].num_tasks() == 8


def test_a_journal_of_todays_format_is_kept() -> None:
    assert VERSIONS, "make one: docs/releasing.md"
