"""Turns of fragments: one circle for all trainers, wherever they enter it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Async, DiLoCo, Pace
from paceline.ids import TaskKey
from paceline.messages.shared import Lease, OptimizerSpec, ParameterSpec, PartSpec
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.protocol.fragments import FragmentSchedule

LEASE = Lease(1, TaskKey(0, 0, 0), 0)


def parts_of(*paces: Pace) -> dict[int, SharedPart]:
    parameter = ParameterSpec(("w",), (4,), "float32")
    optimizer = OptimizerSpec("SGD", ({"lr": 1.0},))
    return {
        number: SharedPart(PartSpec(number, (parameter,), optimizer, (), pace))
        for number, pace in enumerate(paces)
    }


def deliver(parts: dict[int, SharedPart], batch: int) -> None:
    for part in parts.values():
        part.deliver(LEASE, batch, 1)


def push(turns: FragmentSchedule, part: SharedPart) -> None:
    part.step()
    part.window.close()
    turns.pushed(part)


@given(every=st.integers(2, 20), data=st.data())
def test_each_fragment_is_due_once_in_every_batches(
    every: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(2, every))
    pace = DiLoCo(every=every, fragments=count)
    parts = parts_of(*[pace] * count)
    turns = FragmentSchedule(parts)
    due: dict[int, list[int]] = {number: [] for number in parts}
    for batch in range(3 * every):
        deliver(parts, batch)
        for number in turns.in_order(parts):
            if turns.is_due(parts[number]):
                due[number].append(batch)
                push(turns, parts[number])
            parts[number].step()
    for batches in due.values():
        assert len(batches) == 3
        assert [after - before for before, after in pairwise(batches)] == [every] * 2


@given(count=st.integers(1, 6), had=st.integers(0, 20))
def test_who_enters_begins_with_the_first_that_has_had_the_fewest_rounds(
    count: int, had: int
) -> None:
    parts = parts_of(*[DiLoCo(every=12, fragments=count, overlap=1)] * count)
    for number, part in parts.items():
        part.round = had // count + (number < had % count)
    turns = FragmentSchedule(parts)
    turns.enter()
    assert turns.in_order(parts)[0] == had % count


def test_other_parts_step_first_and_fragments_by_their_turns() -> None:
    pace = DiLoCo(every=4, fragments=2)
    parts = parts_of(Async(), pace, pace)
    turns = FragmentSchedule(parts)
    assert turns.in_order(parts) == [0, 1, 2]
    deliver(parts, 0)
    push(turns, parts[1])
    assert turns.in_order(parts) == [0, 2, 1]
    assert turns.in_order([1, 0]) == [0, 1]
    assert not turns.are_alone()
    assert not parts[0].rules.takes_turns


def test_a_push_is_far_enough_away_after_as_many_batches_as_overlap_it() -> None:
    parts = parts_of(DiLoCo(every=4, overlap=2))
    turns = FragmentSchedule(parts)
    deliver(parts, 0)
    push(turns, parts[0])
    found = []
    for batch in range(1, 4):
        deliver(parts, batch)
        found.append(turns.has_gone_far(parts[0]))
    assert found == [False, True, True]
