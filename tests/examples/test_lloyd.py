"""Lloyd's kernels against NumPy, on points of pixels and of numbers with a fraction."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.clusters import lloyd

pytestmark = pytest.mark.slow  # numba compiles

DTYPES = ("uint8", "float64")


def make_points(num: int, dim: int, dtype: str, seed: int = 0) -> NDArray[Any]:
    draw = np.random.default_rng(seed)
    centers = draw.uniform(50, 200, (5, dim))
    points = centers[draw.integers(0, 5, num)] + draw.normal(0, 20, (num, dim))
    return np.clip(points, 0, 255).astype(dtype)


def plain_statistics(points: NDArray[Any], centroids: lloyd.Centroids) -> lloyd.Statistics:
    x = points.astype(np.float64)
    nearest = ((x[:, None] - centroids) ** 2).sum(2).argmin(1)
    found = np.zeros((len(centroids), x.shape[1] + 2))
    for point, label in zip(x, nearest, strict=True):
        found[label] += [*point, 1, (point**2).sum()]
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num", "dim", "k"), [(97, 13, 5), (8, 64, 4), (3, 1, 1)])
def test_the_kernel_equals_numpy(num: int, dim: int, k: int, dtype: str) -> None:
    points = make_points(num, dim, dtype)
    centroids = lloyd.choose_start(points, min(k, num), seed=1)

    found = lloyd.assign(points, centroids)

    expected = plain_statistics(points, centroids)
    if dtype == "uint8":
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert lloyd.count(found) == num


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_record_has_the_same_nearest_whatever_lies_beside_it(dtype: str) -> None:
    points = make_points(500, 37, dtype)
    centroids = make_points(7, 37, "float64", seed=2)
    whole = lloyd.labels(points, centroids)
    for size in (1, 2, 3, 5, 64):
        parts = [
            lloyd.labels(points[first : first + size], centroids)
            for first in range(0, 500, size)
        ]
        assert np.array_equal(np.concatenate(parts), whole), size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(9,), (1, 3, 5), (4, 4, 1), (2, 2, 2, 3)])
def test_blocks_of_centroids_in_any_order_come_to_the_same_bits(
    sizes: tuple[int, ...], dtype: str
) -> None:
    points = make_points(301, 21, dtype)
    centroids = make_points(9, 21, "float64", seed=4)
    centroids[7] = centroids[2]  # of two that are equal, the first has the members
    blocks = np.split(np.arange(9), np.cumsum(sizes)[:-1])
    nearest = lloyd.Nearest(points)
    for block in reversed(blocks):
        nearest.meet(int(block[0]), centroids[block])
    found = np.zeros((9, 23))
    for block in blocks:
        members = np.zeros((len(block), 23))
        nearest.add_to(int(block[0]), members)
        found[block] = members
    assert np.array_equal(found, lloyd.assign(points, centroids))


def test_of_two_centroids_equally_near_the_first_is_taken() -> None:
    points = np.array([[0, 0], [4, 4]], np.uint8)
    assert lloyd.labels(points, np.full((3, 2), 2.0)).tolist() == [0, 0]


def test_inertia_is_the_sum_of_squared_distances() -> None:
    points = make_points(200, 9, "uint8").astype(np.float64)
    centroids = lloyd.choose_start(points, 6, seed=0)
    found = lloyd.inertia(lloyd.assign(points, centroids), centroids)
    gaps = ((points[:, None] - centroids) ** 2).sum(2)
    assert found == pytest.approx(gaps.min(1).sum(), rel=1e-12)


def test_a_centroid_without_members_stays_where_it_is() -> None:
    points = np.array([[1], [3]], np.uint8)
    centroids = np.array([[2.0], [90.0]])
    after = lloyd.moved(lloyd.assign(points, centroids), centroids)
    assert after.tolist() == [[2.0], [90.0]]


def test_inertia_never_rises() -> None:
    points = make_points(400, 12, "uint8")
    fit = lloyd.plain(points, lloyd.choose_start(points, 8, seed=3), iterations=15)
    assert all(after <= before for before, after in pairwise(fit.inertias))
    assert fit.inertias[-1] < fit.inertias[0]


def test_the_start_is_made_of_distinct_records_and_the_same_for_all() -> None:
    points = make_points(300, 11, "float64")
    start = lloyd.choose_start(points, 9, seed=5)
    assert len(np.unique(start, axis=0)) == 9
    assert all((points == center).all(1).any() for center in start)
    assert np.array_equal(start, lloyd.choose_start(points.copy(), 9, seed=5))
    assert not np.array_equal(start, lloyd.choose_start(points, 9, seed=6))


@pytest.mark.parametrize("k", [0, 4])
def test_more_centroids_than_points_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k}: expected 1 to 3"):
        lloyd.choose_start(np.zeros((3, 2)), k, seed=0)


def test_mutual_information_does_not_look_at_the_numbers_of_labels() -> None:
    first = np.array([0, 0, 1, 1, 2, 2])
    assert lloyd.mutual_information(first, np.array([5, 5, 0, 0, 3, 3])) == pytest.approx(1)
    nothing = lloyd.mutual_information(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert nothing == pytest.approx(0)
