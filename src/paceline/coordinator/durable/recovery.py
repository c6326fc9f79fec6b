"""From marks to the place where a task goes on.

Every server reports, for a lost trainer's tasks or after a return to a cut, the distinct
marks that its slots hold. A task goes on at ``min(marks) + 1``; every distinct mark
beyond is an edge that windows must end at, so that a replayed window is, on every slot,
wholly a duplicate or wholly new. Where batches without effect begin and end there are
edges, too: a window has an effect, or none.

Pure.
"""

from collections.abc import Iterable

from paceline.coordinator.durable.outcomes import Resume
from paceline.ids import NO_BATCH, TaskKey
from paceline.messages.server import MarkEntry
from paceline.messages.shared import VoidSpan

Marks = dict[TaskKey, set[int]]  # {task: distinct marks over all slots of all servers}
Voids = dict[TaskKey, set[VoidSpan]]  # {task: batches without effect}


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


def join_voids(reports: Iterable[Iterable[MarkEntry]]) -> Voids:
    """The batches without effect of each task, over several servers."""
    voids: Voids = {}
    for report in reports:
        for entry in report:
            if entry.voids:
                voids.setdefault(entry.key, set()).update(entry.voids)
    return voids


def decide_resumes(
    keys: Iterable[TaskKey], marks: Marks, voids: Voids
) -> tuple[Resume, ...]:
    """Where each task goes on; one without a mark starts from the beginning."""
    resumes = []
    for key in sorted(keys):
        found = marks.get(key) or {NO_BATCH}
        first = min(found) + 1
        open_voids = tuple(sorted(v for v in voids.get(key, ()) if v.last >= first))
        bounds = {m for v in open_voids for m in (v.first - 1, v.last)}
        edges = tuple(sorted(m for m in found | bounds if m >= first))
        resumes.append(Resume(key, first, edges, open_voids))
    return tuple(resumes)
