"""What the event log says of outcomes, and of what needs none."""

from typing import Any

from paceline.coordinator.durable.happenings import MOST_LISTED, _spent, told
from paceline.coordinator.durable.outcomes import (
    CutCommitted,
    MarksRestored,
    Resume,
    TaskDone,
)
from paceline.coordinator.ledgers.effects import Happened
from paceline.ids import TaskKey
from paceline.messages.shared import Done, SpentTime
from paceline.messages.trainer import Computed
from paceline.messages.watching import ProcessStatus


def test_an_outcome_is_told_by_its_name_and_fields() -> None:
    key = TaskKey(0, 1, 2)
    assert told(TaskDone(key, 5))[0] == "TaskDone"
    assert told(TaskDone(key, 5))[1].items() >= {"key": key, "records": 5}.items()


def test_what_nobody_reads_is_left_to_the_journal() -> None:
    cut = CutCommitted(1, 0, "cut", b"queue", {}, {}, (0,), ends_stage=False)
    assert "queue" not in told(cut)[1]
    assert told(cut)[1]["cut"] == 1


def test_a_list_of_thousands_is_told_by_its_length() -> None:
    resumes = tuple(Resume(TaskKey(0, 0, task), 1, ()) for task in range(MOST_LISTED + 1))
    assert told(MarksRestored(1, resumes))[1]["resumes"] == MOST_LISTED + 1
    assert told(MarksRestored(1, resumes[1:]))[1]["resumes"] == resumes[1:]


def test_how_long_batches_take_is_told_and_not_journalled(make_job: Any) -> None:
    job = make_job()
    job.open("trainer-0")
    before = len(job.outcomes)
    computed = Computed(**job.who("trainer-0"), batches=7, seconds=(0.1, 0.2), mean_s=0.15)
    assert job.get("trainer-0", computed) == Done()
    told = {"trainer": "trainer-0", "batches": 7, "seconds": (0.1, 0.2), "mean_s": 0.15}
    assert Happened("computed", told) in job.effects
    assert len(job.outcomes) == before


def test_of_many_trainers_the_times_of_those_that_wait_least_are_told() -> None:
    def trainer(number: int) -> ProcessStatus:
        spent = SpentTime(0.0, 1.0, 0.0, float(number))
        name = f"trainer-{number}"
        return ProcessStatus("trainer", name, 1, 9, "", "", "running", 0, 0, spent=spent)

    few, many = [trainer(1)], [trainer(n) for n in range(1000)]

    assert _spent(few) == {"trainer-1": [0.0, 1.0, 0.0, 1.0]}
    assert set(_spent(many)) == {f"trainer-{n}" for n in range(MOST_LISTED)}
