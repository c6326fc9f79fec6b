"""What the event log says of outcomes."""

from paceline.coordinator.happenings import MOST_LISTED, told
from paceline.coordinator.outcomes import CutCommitted, MarksRestored, Resume, TaskDone
from paceline.ids import TaskKey


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
