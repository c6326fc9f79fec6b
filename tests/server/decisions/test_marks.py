"""Whatever windows come, every slot applies every batch at most once and in order."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.ids import NO_BATCH, Span, TaskKey, Window
from paceline.messages.server import MarkEntry
from paceline.server.decisions.taking import Marks

SPANS = st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 2))
SLOTS = st.sets(st.integers(0, 2), min_size=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SPANS, SLOTS), max_size=30))
def test_every_slot_applies_every_batch_once_and_in_order(
    pushes: list[tuple[tuple[int, int, int], set[int]]],
) -> None:
    marks = Marks()
    for slot in range(3):
        marks.add_slots([slot])
    applied: dict[tuple[int, int], list[int]] = {}  # {(slot, task): batches}
    for (task, first, more), slots in pushes:
        window = Window(0, 0, (Span(task, first, first + more),))
        expected_decision = marks.decide(window, tuple(sorted(slots)))
        decision = marks.take(window, tuple(sorted(slots)))
        assert decision == expected_decision
        for slot in decision.slots:
            applied.setdefault((slot, task), []).extend(range(first, first + more + 1))
        if decision.verdict == "duplicate":
            for slot in slots:
                assert set(range(first, first + more + 1)) <= set(applied[slot, task])
    for batches in applied.values():
        assert batches == list(range(len(batches)))
        assert max(Counter(batches).values()) == 1
    for task in (0, 1):
        expected = {
            len(applied[slot, task]) - 1 if (slot, task) in applied else NO_BATCH
            for slot in range(3)
        }
        assert set(marks.entry(TaskKey(0, 0, task)).marks) == expected


def test_a_server_without_slots_has_no_marks() -> None:
    assert Marks().entry(TaskKey(0, 0, 3)) == MarkEntry(TaskKey(0, 0, 3), ())
