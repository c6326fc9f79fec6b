"""Blocks cover every parameter exactly, in whole rows, and none is empty."""

import math
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.messages.shared import Block, ParameterSpec
from paceline.params.blocks import cut_blocks, dtype_bytes

# A loaded machine is slow to draw and to run examples; neither is a failure.
on_any_machine = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)

shapes = st.lists(st.integers(0, 40), max_size=3).map(tuple)


def _parameter(*shape: int) -> ParameterSpec:
    return ParameterSpec(("w",), shape, "float32")


@on_any_machine
@given(st.lists(shapes, max_size=4), st.integers(1, 9), st.integers(1, 500))
def test_blocks_cover_every_parameter_exactly_and_none_is_empty(
    all_shapes: list[tuple[int, ...]], servers: int, min_block: int
) -> None:
    parameters = [_parameter(*shape) for shape in all_shapes]
    blocks = cut_blocks(parameters, servers, first_slot=3, min_block=min_block)
    for index, shape in enumerate(all_shapes):
        mine = [b for b in blocks if b.parameter == index]
        assert all(b.start < b.stop for b in mine)
        assert [b.start for b in mine] == [0, *(b.stop for b in mine)][: len(mine)]
        assert (mine[-1].stop if mine else 0) == math.prod(shape)
        assert len(mine) <= min(servers, max(1, math.prod(shape) // min_block))


@on_any_machine
@given(shapes.filter(lambda s: len(s) >= 2), st.integers(1, 9), st.integers(1, 500))
def test_blocks_hold_whole_rows(
    shape: tuple[int, ...], servers: int, min_block: int
) -> None:
    for b in cut_blocks([_parameter(*shape)], servers, first_slot=0, min_block=min_block):
        width = math.prod(shape[1:])
        assert b.start % width == b.stop % width == 0


@on_any_machine
@given(shapes, st.integers(1, 9), st.integers(1, 500))
def test_all_blocks_but_the_last_are_equal_and_the_last_is_the_remainder(
    shape: tuple[int, ...], servers: int, min_block: int
) -> None:
    blocks = cut_blocks([_parameter(*shape)], servers, first_slot=0, min_block=min_block)
    sizes = [b.stop - b.start for b in blocks]
    assert len(set(sizes[:-1])) <= 1
    assert not sizes or sizes[-1] <= sizes[0]


def test_slots_are_numbered_from_the_first_over_all_parameters() -> None:
    parameters = [_parameter(20_000), _parameter(), _parameter(0, 5), _parameter(3, 3)]
    assert cut_blocks(parameters, 2, first_slot=7) == (
        Block(7, 0, 0, 10_000),
        Block(8, 0, 10_000, 20_000),
        Block(9, 1, 0, 1),
        Block(10, 3, 0, 9),
    )


def test_a_parameter_below_the_minimum_stays_whole() -> None:
    assert len(cut_blocks([_parameter(16_383)], 8, first_slot=0)) == 1
    assert len(cut_blocks([_parameter(16_384)], 8, first_slot=0)) == 2


def test_whole_rows_may_need_fewer_blocks_than_servers() -> None:
    blocks = cut_blocks([_parameter(3, 100)], 2, first_slot=0, min_block=1)
    assert [(b.start, b.stop) for b in blocks] == [(0, 200), (200, 300)]
    blocks = cut_blocks([_parameter(5, 10)], 4, first_slot=0, min_block=1)
    assert [(b.start, b.stop) for b in blocks] == [(0, 20), (20, 40), (40, 50)]


def test_dtypes_have_their_sizes_and_others_are_refused() -> None:
    assert [dtype_bytes(d) for d in ("bfloat16", "float32", "float64")] == [2, 4, 8]
    with pytest.raises(UsageError, match=r"float32.*got 'int64'"):
        dtype_bytes("int64")


def test_cutting_and_placing_import_no_numeric_library() -> None:
    program = (
        "import sys, paceline.params.blocks\n"
        "print(*{'torch', 'numpy', 'numba'} & sys.modules.keys())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == ""
