"""Every compiled loop equals its plain NumPy twin."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from paceline.params.rows.compiled import kernels, step_kernels
from paceline.params.rows.id_map import empty_cells
from tests.params.rows.compiled import reference

LOW, HIGH = -(2**63), 2**63 - 1
keys = st.integers(0, 2**64 - 1)
any_id = st.one_of(st.integers(-9, 9), st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH]))
id_arrays = st.lists(any_id, max_size=60).map(lambda ids: np.array(ids, np.int64))
# A loaded machine is slow to draw and to run examples; neither is a failure.
on_any_machine = settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)


def _normal(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@on_any_machine
@given(keys)
def test_mixer_equals_its_twin(x: int) -> None:
    assert int(kernels.mix64(np.uint64(x))) == reference.mix64(x)


@on_any_machine
@given(id_arrays, id_arrays)
def test_finding_and_inserting_equal_a_dictionary(
    ids: NDArray[np.int64], others: NDArray[np.int64]
) -> None:
    cells, index = empty_cells(len(ids)), dict[int, int]()
    known, twin_known = np.empty_like(ids), np.empty_like(ids)
    rows, twin_rows = np.empty_like(ids), np.empty_like(ids)
    count = kernels.find_or_insert(cells, ids, known, 0, rows)
    assert count == reference.find_or_insert(index, ids, twin_known, 0, twin_rows)
    np.testing.assert_array_equal(rows, twin_rows)
    np.testing.assert_array_equal(known[:count], twin_known[:count])
    found, twin_found = np.empty_like(others), np.empty_like(others)
    kernels.find(cells, others, found)
    reference.find(index, others, twin_found)
    np.testing.assert_array_equal(found, twin_found)


@on_any_machine
@given(keys, id_arrays, st.integers(1, 9), st.floats(0, 100, width=32))
def test_uniform_rows_equal_their_twin_to_the_bit(
    key: int, ids: NDArray[np.int64], dim: int, bound: float
) -> None:
    out, twin = np.empty((2, len(ids), dim), np.float32)
    kernels.draw_uniform(np.uint64(key), ids, np.float32(bound), out)
    reference.draw_uniform(key, ids, np.float32(bound), twin)
    np.testing.assert_array_equal(out, twin)


@on_any_machine
@given(keys, id_arrays, st.integers(1, 9))
def test_normal_rows_equal_their_twin_but_for_the_last_bit(
    key: int, ids: NDArray[np.int64], dim: int
) -> None:
    out, twin = np.empty((2, len(ids), dim), np.float32)
    kernels.draw_normal(np.uint64(key), ids, 0.3, out)
    reference.draw_normal(key, ids, 0.3, twin)
    np.testing.assert_allclose(out, twin, rtol=2e-7, atol=1e-15)


@on_any_machine
@given(st.lists(st.lists(any_id, max_size=20), max_size=5), st.integers(0, 9))
def test_inserting_for_several_slots_equals_its_twin(
    drawn: list[list[int]], taken: int
) -> None:
    # Of several slots an id lies in the first that names it.
    mine = [
        [one for one in ids if all(one not in before for before in drawn[:n])]
        for n, ids in enumerate(drawn)
    ]
    ids = np.array([one for some in mine for one in some], np.int64)
    ends = np.cumsum([0, *map(len, mine)])
    cells, index = empty_cells(len(ids)), dict[int, int]()
    nexts, twin_nexts = np.tile(np.arange(len(mine)) * 40 + taken, (2, 1))
    known, twin_known = np.full((2, 40 * len(mine)), -1)
    for stop in (len(mine) // 2, len(mine)):  # some are there before
        few = ids[: ends[stop]]
        rows, twin_rows = np.empty((2, len(few)), np.int64)
        found = (few, ends[: stop + 1])
        kernels.insert_by_slot(cells, *found, known, nexts[:stop], rows)
        reference.insert_by_slot(index, *found, twin_known, twin_nexts[:stop], twin_rows)
        np.testing.assert_array_equal(rows, twin_rows)
    np.testing.assert_array_equal(known, twin_known)
    np.testing.assert_array_equal(nexts, twin_nexts)


@on_any_machine
@given(st.permutations(range(10)), st.integers(0, 10), st.integers(1, 9))
def test_putting_equals_its_twin(order: list[int], count: int, dim: int) -> None:
    rows, values = np.array(order[:count], np.int64), _normal(1, count, dim)
    out, twin = np.full((2, 10, dim), 7, np.float32)
    kernels.put(values, rows, out)
    reference.put(values, rows, twin)
    np.testing.assert_array_equal(out, twin)


@on_any_machine
@given(id_arrays, id_arrays, st.integers(1, 9))
def test_reading_is_finding_and_gathering(
    ids: NDArray[np.int64], others: NDArray[np.int64], dim: int
) -> None:
    cells = empty_cells(len(ids))
    kernels.find_or_insert(cells, ids, np.empty_like(ids), 0, np.empty_like(ids))
    values, wanted = _normal(1, len(ids), dim), np.concatenate([ids[:3], others])
    out, twin = np.full((2, len(wanted), dim), 7, np.float32)
    rows, found = np.empty((2, len(wanted)), np.int64)
    kernels.find(cells, wanted, rows)
    reference.gather(values, rows, twin)
    assert kernels.read(cells, wanted, values, out, found) == np.count_nonzero(rows < 0)
    np.testing.assert_array_equal(out, twin)
    np.testing.assert_array_equal(found, rows)


@on_any_machine
@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 9))
def test_summing_duplicates_equals_its_twin_to_the_bit(
    inverse_list: list[int], dim: int
) -> None:
    inverse = np.array(inverse_list, np.int64)
    gradients = _normal(2, len(inverse), dim)
    sums, twin = np.zeros((2, 10, dim), np.float32)
    kernels.sum_duplicates(inverse, gradients, sums)
    reference.sum_duplicates(inverse, gradients, twin)
    np.testing.assert_array_equal(sums, twin)


F32 = np.float32
# {kernel: (width of each state, 0 for the row's own, hyper-parameters)}
STEPS: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "sgd": ((), (F32(0.05),)),
    "momentum": ((0,), (F32(0.05), F32(0.9))),
    "nesterov": ((0,), (F32(0.05), F32(0.9))),
    "adagrad": ((0,), (F32(0.05), F32(1e-10))),
    "row_wise_adagrad": ((1,), (F32(0.05), F32(1e-10))),
    "adam": ((0, 0, 1), ((0.05, 0.9, 0.999, 1e-8),)),
    "ftrl": ((0, 0), ((F32(0.05), F32(1), F32(0.7), F32(0.3)),)),
}


def _corrections_below(step: int) -> NDArray[np.float32]:
    corrections = np.zeros((step, 2), np.float32)
    step_kernels.adam_corrections(0.05, 0.9, 0.999, corrections)
    return corrections


# What a kernel takes beside: here some of its steps are looked up, the others worked out.
LOOKED_UP = {"adam": (_corrections_below(4),)}


@pytest.mark.parametrize("name", STEPS)
@on_any_machine
@given(st.permutations(range(12)), st.integers(0, 12), st.integers(1, 20))
def test_row_optimizers_equal_their_twins_to_the_bit(
    name: str, order: list[int], count: int, dim: int
) -> None:
    widths, hyper = STEPS[name]
    rows = np.array(order[:count], np.int64)
    arrays = [
        _normal(5, 12, dim),
        *(np.full((12, w or dim), w or 0.1, F32) for w in widths),
    ]
    twins = [array.copy() for array in arrays]
    for step in range(4):
        gradients = _normal(step, count, dim)
        getattr(step_kernels, name)(
            *arrays, rows, gradients, *hyper, *LOOKED_UP.get(name, ())
        )
        getattr(reference, name)(*twins, rows, gradients, *hyper)
    for array, twin in zip(arrays[1:], twins[1:], strict=True):
        np.testing.assert_array_equal(array, twin)
    if name == "adam":  # but for what two libraries make of a power
        np.testing.assert_allclose(arrays[0], twins[0], rtol=2e-7, atol=2e-7)
    else:
        np.testing.assert_array_equal(arrays[0], twins[0])


@on_any_machine
@given(st.permutations(range(12)), st.integers(0, 12), st.integers(1, 20))
def test_decay_and_adam_by_table_equal_their_twins_to_the_bit(
    order: list[int], count: int, dim: int
) -> None:
    rows = np.array(order[:count], np.int64)
    gradients, found, twin = _normal(1, count, dim), *np.empty((2, count, dim), F32)
    arrays = [_normal(2, 12, dim), _normal(3, 12, dim), np.abs(_normal(4, 12, dim))]
    twins = [array.copy() for array in arrays]
    step_kernels.decayed(arrays[0], rows, gradients, F32(0.3), found)
    reference.decayed(twins[0], rows, gradients, F32(0.3), twin)
    np.testing.assert_array_equal(found, twin)
    step_kernels.shrink(arrays[0], rows, F32(0.97))
    reference.shrink(twins[0], rows, F32(0.97))
    step_kernels.adam_moments(*arrays[1:], rows, gradients, 0.9, 0.999, found)
    reference.adam_moments(*twins[1:], rows, gradients, 0.9, 0.999, twin)
    np.testing.assert_array_equal(found, twin)
    move = (np.sqrt(found), 0.05, 0.7, 1e-8)
    step_kernels.adam_move(*arrays[:2], rows, *move)
    reference.adam_move(*twins[:2], rows, *move)
    for array, other in zip(arrays, twins, strict=True):
        np.testing.assert_array_equal(array, other)


def test_a_zero_gradient_without_eps_gives_nan_as_in_torch_not_an_exception() -> None:
    values, sums = np.ones((2, 1, 2), np.float32)
    sums[:] = 0
    zero = np.float32(0)
    rows = np.zeros(1, np.int64)
    step_kernels.adagrad(values, sums, rows, np.zeros((1, 2), np.float32), zero, zero)
    assert np.isnan(values).all()


def test_ids_of_one_slot_do_not_crowd_the_map() -> None:
    ids = np.arange(60_000)
    mine = ids[reference.slot_of(12345, ids, 16) == 3]
    cells = empty_cells(len(mine))
    kernels.find_or_insert(cells, mine, np.empty_like(mine), 0, np.empty_like(mine))
    taken = np.flatnonzero(cells[:, 1] >= 0)
    longest_run = max(map(len, np.split(taken, np.flatnonzero(np.diff(taken) > 1) + 1)))
    assert longest_run < 100


@pytest.mark.parametrize("offset", [0, 3])
def test_frames_may_be_read_only_and_unaligned(offset: int) -> None:
    def as_received(array: NDArray[Any]) -> NDArray[Any]:
        frame = bytes(offset) + array.tobytes()
        return np.frombuffer(frame, array.dtype, offset=offset).reshape(array.shape)

    ids = as_received(np.array([4, 5], np.int64))
    assert not ids.flags.writeable
    gradients = as_received(np.ones((2, 3), np.float32))
    rows, values = np.empty(2, np.int64), np.ones((2, 3), np.float32)
    cells = empty_cells(2)
    assert kernels.find_or_insert(cells, ids, np.empty(2, np.int64), 0, rows) == 2
    step_kernels.sgd(values, rows, gradients, np.float32(1))
    np.testing.assert_array_equal(values, 0)
    for name, (widths, hyper) in STEPS.items():
        state = [np.zeros((2, width or 3), np.float32) for width in widths]
        values = np.zeros((2, 3), np.float32)
        extra = LOOKED_UP.get(name, ())
        getattr(step_kernels, name)(values, *state, rows, gradients, *hyper, *extra)
        assert (values < 0).all()
