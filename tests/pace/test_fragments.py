"""Fragments: how a model is cut, and whose turn takes how many batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import DiLoCo, LocalSGD, Pace, Sync
from paceline.pace.policy import (
    batches_of_turn,
    cut_fragments,
    fragments_of,
    mix_of,
    round_overlap,
    takes_turns,
)


@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=30), data=st.data())
def test_every_parameter_is_in_one_fragment_and_none_is_empty(
    sizes: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(sizes)))
    fragments = cut_fragments(sizes, count)
    assert len(fragments) == count
    assert all(fragments)
    assert sorted(i for one in fragments for i in one) == list(range(len(sizes)))
    assert all(list(one) == sorted(one) for one in fragments)
    loads = [sum(sizes[i] for i in one) for one in fragments]
    assert max(loads) - min(loads) <= max(sizes), "no parameter could balance them more"


def test_parameters_of_one_size_make_fragments_of_one_size() -> None:
    assert cut_fragments([8] * 6, 3) == ((0, 3), (1, 4), (2, 5))
    assert cut_fragments([100, 1, 1, 98], 2) == ((0,), (1, 2, 3))


@given(data=st.data())
def test_turns_of_all_fragments_make_the_batches_of_a_round(data: st.DataObject) -> None:
    every = data.draw(st.integers(1, 200))
    count = data.draw(st.integers(1, every))
    pace = DiLoCo(every=every, fragments=count)
    turns = [batches_of_turn(pace, fragment) for fragment in range(count)]
    assert sum(turns) == every
    assert max(turns) - min(turns) <= 1
    assert min(turns) >= 1


@pytest.mark.parametrize("pace", [Sync(), LocalSGD(every=5), DiLoCo(every=5)])
def test_other_paces_have_one_fragment_and_wait(pace: Pace) -> None:
    assert fragments_of(pace) == 1
    assert round_overlap(pace) == 0
    assert not takes_turns(pace)


def test_what_comes_late_is_mixed_as_the_pace_says() -> None:
    assert mix_of(DiLoCo(every=5, overlap=1)) == 0.5
    assert mix_of(DiLoCo(every=5, overlap=1, mix=0.0)) == 0.0
    assert mix_of(Sync()) == 0.0
    assert takes_turns(DiLoCo(every=5, overlap=1))
    assert takes_turns(DiLoCo(every=5, fragments=2))
