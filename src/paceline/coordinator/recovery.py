"""From marks to the place where a task goes on.

Every server reports, for a lost trainer's tasks or after a return to a cut, the distinct
marks that its slots hold. A task goes on at ``min(marks) + 1``; every distinct mark
beyond is an edge that windows must end at, so that a replayed window is, on every slot,
wholly a duplicate or wholly new.

Pure.
"""

from collections.abc import Iterable

from paceline.coordinator.outcomes import Resume
from paceline.ids import NO_BATCH, TaskKey
from paceline.messages import MarkEntry

Marks = dict[TaskKey, set[int]]  # {task: distinct marks over all slots of all servers}


def join_marks(keys: Iterable[TaskKey], reports: Iterable[Iterable[MarkEntry]]) -> Marks:
    """The distinct marks of each task over several servers.

    A report without an entry for a task says that none of its slots has a mark; an
    entry without marks says that the server has no slots at all.
    """
    by_server = [{entry.key: entry.marks for entry in report} for report in reports]
    return {
        key: {mark for marks in by_server for mark in marks.get(key, (NO_BATCH,))}
        for key in keys
    }


def decide_resumes(keys: Iterable[TaskKey], marks: Marks) -> tuple[Resume, ...]:
    """Where each task goes on; one without a mark starts from the beginning."""
    resumes = []
    for key in sorted(keys):
        found = marks.get(key) or {NO_BATCH}
        first = min(found) + 1
        resumes.append(Resume(key, first, tuple(sorted(m for m in found if m >= first))))
    return tuple(resumes)
