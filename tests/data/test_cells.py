"""Records of a rotation: each in one cell, groups whole, parts balanced."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from paceline.data.cells import cut_cells, parts_of


@given(
    st.integers(1, 5),
    st.integers(1, 7),
    arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 10**6)),
)
def test_every_record_lies_in_the_cell_of_its_part_and_block(
    num_parts: int, num_blocks: int, drawn: np.ndarray
) -> None:
    parts, blocks = drawn % num_parts, drawn // 7 % num_blocks
    cells = cut_cells(blocks, num_blocks, parts, num_parts)
    assert sorted(cells.records.tolist()) == list(range(len(drawn)))
    assert len(cells.sizes()) == num_parts * num_blocks
    for cell in range(num_parts * num_blocks):
        records = cells.of(cell)
        assert (parts[records] * num_blocks + blocks[records] == cell).all()
        assert (np.diff(records) > 0).all()


@given(
    arrays(np.int64, st.integers(0, 200), elements=st.integers(-9, 9)), st.integers(1, 6)
)
def test_records_of_a_group_lie_in_one_part(group: np.ndarray, num_parts: int) -> None:
    parts = parts_of(len(group), group, num_parts)
    assert ((parts >= 0) & (parts < num_parts)).all()
    order = np.argsort(group, kind="stable")
    assert (np.diff(parts[order]) >= 0).all()
    for one in np.unique(group):
        assert len(set(parts[group == one].tolist())) == 1


def test_parts_have_about_as_many_records_each() -> None:
    group = np.random.default_rng(0).zipf(1.5, 10_000) % 500
    sizes = np.bincount(parts_of(10_000, group, 4), minlength=4)
    largest = np.bincount(group).max()
    assert sizes.max() - sizes.min() <= largest
    assert np.bincount(parts_of(10, None, 4)).tolist() == [3, 2, 3, 2]
