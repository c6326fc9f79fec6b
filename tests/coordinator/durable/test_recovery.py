"""Where a task goes on, and where its windows must end."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.coordinator.durable.outcomes import Resume
from paceline.coordinator.durable.recovery import decide_resumes, join_marks, join_voids
from paceline.ids import TaskKey
from paceline.messages.server import MarkEntry
from paceline.messages.shared import VoidSpan

KEY = TaskKey(0, 0, 3)


def resume(*entries: MarkEntry) -> Resume:
    """What servers' entries for one task come to."""
    reports = [(entry,) for entry in entries]
    [found] = decide_resumes([KEY], join_marks([KEY], reports), join_voids(reports))
    return found


def test_a_task_goes_on_behind_the_least_mark_and_ends_windows_at_the_others() -> None:
    assert resume(MarkEntry(KEY, (2, 5)), MarkEntry(KEY, (3,))) == Resume(KEY, 3, (3, 5))


def test_where_batches_without_effect_begin_and_end_windows_end() -> None:
    ahead = MarkEntry(KEY, (9,), (VoidSpan(0, 5, 6), VoidSpan(0, 0, 1)))
    assert resume(MarkEntry(KEY, (2,)), ahead) == Resume(
        KEY, 3, (4, 6, 9), (VoidSpan(0, 5, 6),)
    )


def test_what_all_have_passed_is_forgotten() -> None:
    entry = MarkEntry(KEY, (6,), (VoidSpan(0, 2, 6),))
    assert resume(entry, entry) == Resume(KEY, 7, ())


@given(st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 12), st.integers(0, 12))))
def test_no_window_holds_batches_with_an_effect_and_batches_without(
    told: list[tuple[int, int, int]],
) -> None:
    entries = [
        MarkEntry(KEY, (mark,), (VoidSpan(0, min(a, b), max(a, b)),))
        if max(a, b) <= mark
        else MarkEntry(KEY, (mark,))
        for mark, a, b in told
    ]
    found = resume(*entries)
    void = {b for v in found.voids for b in range(v.first, v.last + 1)}
    first = found.first
    for edge in found.edges:
        window = set(range(first, edge + 1))
        assert window <= void or not window & void
        first = edge + 1
