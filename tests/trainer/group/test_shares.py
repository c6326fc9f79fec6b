"""Ranks of a trainer divide servers, and with them every element of a part."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Async, Pace, Sync
from paceline.messages.shared import OptimizerSpec, ParameterSpec, PartPlan, PartSpec
from paceline.params.blocks import cut_blocks
from paceline.trainer.group.shares import LEAST_BYTES, shares, speakers, whole

WIDTH = 64
HEIGHT = LEAST_BYTES // WIDTH  # of float32: four times the least, in one parameter


def plan_of(
    shapes: list[tuple[int, ...]],
    servers: int,
    *,
    pace: Pace | None = None,
    dtype: str = "float32",
    is_sparse: bool = False,
) -> PartPlan:
    parameters = tuple(
        ParameterSpec((f"p{i}",), shape, dtype, has_sparse_gradients=is_sparse and not i)
        for i, shape in enumerate(shapes)
    )
    optimizer = OptimizerSpec("SGD", ({"lr": 0.1},))
    spec = PartSpec(0, parameters, optimizer, (), pace or Sync())
    blocks = cut_blocks(parameters, servers, first_slot=3)
    placement = {b.slot: f"server-{i % servers}" for i, b in enumerate(blocks)}
    return PartPlan(spec, blocks, 3 + len(blocks), 0, placement)


@given(
    heights=st.lists(st.integers(1, 4 * HEIGHT), min_size=1, max_size=4),
    servers=st.integers(1, 6),
    size=st.integers(2, 5),
    least=st.sampled_from([0, LEAST_BYTES]),
)
def test_every_element_is_held_by_one_process_and_every_server_hears_one(
    heights: list[int], servers: int, size: int, least: int
) -> None:
    plan = plan_of([(height, WIDTH) for height in heights], servers)
    speaking = speakers(plan, size, least)
    held = shares(plan, speaking, range(len(heights)))
    assert set(held) <= set(range(size))
    pieces = sorted(piece for found in held.values() for piece in found)
    for place, height in enumerate(heights):
        cuts = [0]
        for piece in pieces:
            if piece.place == place:
                assert piece.start == cuts[-1] < piece.stop
                cuts.append(piece.stop)
        assert cuts[-1] == height * WIDTH
    if speaking:
        assert set(speaking) == {plan.placement[block.slot] for block in plan.blocks}
        assert 0 in speaking.values(), "the leader is at work, too"
        counted = Counter(speaking.values())
        assert max(counted.values()) - min(counted.values()) <= 1
        assert len(counted) == min(size, len(speaking))
    else:
        assert set(held) == {0}


def test_shares_of_some_parameters_count_places_among_them() -> None:
    plan = plan_of([(8, 2), (16, 2), (4, 2)], 2)
    held = shares(plan, {"server-0": 1, "server-1": 0}, (1, 2))
    assert held == {0: [(0, 0, 32)], 1: [(1, 0, 8)]}


def test_of_whole_parameters_the_leader_has_all() -> None:
    assert whole([torch.zeros(2, 3), torch.zeros(4)]) == {0: [(0, 0, 6), (1, 0, 4)]}


@pytest.mark.parametrize(
    ("pace", "is_sparse", "is_shared"),
    [
        (Sync(), False, True),
        (Async(), False, True),
        (Sync(codec="bf16"), False, True),
        (Sync(codec="top1%"), False, False),
        (Async(pull_every=2), False, False),
        (Sync(), True, False),
    ],
)
def test_what_must_stay_with_one_process_stays_with_the_leader(
    pace: Pace, is_sparse: bool, is_shared: bool
) -> None:
    shapes = [(HEIGHT, WIDTH), (HEIGHT, WIDTH)]
    plan = plan_of(shapes, 2, pace=pace, is_sparse=is_sparse)
    assert bool(speakers(plan, 2)) == is_shared


def test_small_parts_and_parts_on_one_server_are_the_leaders_alone() -> None:
    assert not speakers(plan_of([(HEIGHT, WIDTH)], 1), 2)
    assert speakers(plan_of([(HEIGHT // 2, WIDTH)], 2), 2)
    assert not speakers(plan_of([(HEIGHT // 2 - 2, WIDTH)], 2), 2)
    assert speakers(plan_of([(HEIGHT // 4, WIDTH)], 2, dtype="float64"), 2)
