"""Matrix factorisation: its loops against NumPy, its data, and the plain loop."""

import numpy as np
import pytest

from tests.examples.loading import load

absorbing, descent, plain, ratings = load(
    "factorisation", "absorbing", "descent", "plain", "ratings"
)

RATE, PENALTY, MEAN = (np.float32(x) for x in (0.05, 0.1, 3.0))
SMALL = ratings.generated(60, 40, 6000, factors=2, noise=0.5)
SUITED = plain.Settings(k=2, rate=0.02, penalty=0.01, decay=0.9)


def drawn(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return plain.begun(SMALL, plain.Settings(k=3), seed)


def error_of(row: np.ndarray, column: np.ndarray, value: np.float32) -> np.float32:
    return value - MEAN - row[-1] - column[-1] - row[:-1] @ column[:-1]


def step_along(p: np.ndarray, q: np.ndarray, learned: ratings.Ratings) -> None:
    """The twin of `descent.step_along`."""
    for user, item, value in zip(*learned, strict=True):
        row, column = p[user].copy(), q[item].copy()
        error = error_of(row, column, value)
        toward_row = np.append(column[:-1], np.float32(1))
        toward_column = np.append(row[:-1], np.float32(1))
        p[user] += RATE * (error * toward_row - PENALTY * row)
        q[item] += RATE * (error * toward_column - PENALTY * column)


def descend(rows: np.ndarray, fixed: np.ndarray, learned: plain.ByRow) -> None:
    """The twin of `descent.descend`: least squares in one number at a time."""
    for m, row in enumerate(rows):
        span = slice(learned.starts[m], learned.starts[m + 1])
        columns, values = fixed[learned.others[span]], learned.values[span]
        if not len(values):
            continue
        slopes = np.column_stack([columns[:, :-1], np.ones(len(columns))])
        known = values - MEAN - columns[:, -1]
        for t in range(len(row)):
            rest = known - slopes @ row + slopes[:, t] * row[t]
            row[t] = (
                rest @ slopes[:, t] / (PENALTY * len(values) + slopes[:, t] @ slopes[:, t])
            )


def loss_of(p: np.ndarray, q: np.ndarray, learned: ratings.Ratings) -> float:
    rows, columns = p[learned.users], q[learned.items]
    said = MEAN + rows[:, -1] + columns[:, -1] + (rows[:, :-1] * columns[:, :-1]).sum(1)
    penalty = PENALTY * ((rows**2).sum() + (columns**2).sum())
    return float(((learned.values - said) ** 2).sum() + penalty)


def test_steps_along_ratings_are_those_of_numpy() -> None:
    p, q = drawn()
    p_twin, q_twin = p.copy(), q.copy()
    descent.step_along(p, q, *SMALL.train, MEAN, RATE, PENALTY)
    step_along(p_twin, q_twin, SMALL.train)
    np.testing.assert_allclose(p, p_twin, atol=1e-4)
    np.testing.assert_allclose(q, q_twin, atol=1e-4)


def test_rows_of_one_array_change_as_those_of_two() -> None:
    p, q = drawn()
    both = np.concatenate([p, q])
    descent.step_along(p, q, *SMALL.train, MEAN, RATE, PENALTY)
    halves = both[: len(p)], both[len(p) :]
    descent.step_along(*halves, *SMALL.train, MEAN, RATE, PENALTY)
    assert np.array_equal(both, np.concatenate([p, q]))


def test_coordinate_descent_is_that_of_numpy() -> None:
    p, q = drawn()
    twin = p.copy()
    learned = plain.by_row(*SMALL.train, SMALL.num_users)
    descent.descend(p, q, *learned, MEAN, PENALTY, 0, 4)
    descend(twin, q, learned)
    np.testing.assert_allclose(p, twin, atol=1e-4)


def test_one_number_at_a_time_leaves_the_others_and_lessens_the_loss() -> None:
    p, q = drawn()
    before = p.copy()
    learned = plain.by_row(*SMALL.train, SMALL.num_users)
    descent.descend(p, q, *learned, MEAN, PENALTY, 1, 2)
    assert np.array_equal(p[:, [0, 2, 3]], before[:, [0, 2, 3]])
    assert loss_of(p, q, SMALL.train) < loss_of(before, q, SMALL.train)


def test_a_row_without_ratings_stays_as_it_began() -> None:
    p, q = drawn()
    before = p.copy()
    nothing = plain.ByRow(
        np.zeros(len(p) + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
    )
    descent.descend(p, q, *nothing, MEAN, PENALTY, 0, 4)
    assert np.array_equal(p, before)


def test_rows_in_parts_are_all_rows() -> None:
    users, items, values = SMALL.train
    whole = plain.by_row(users, items, values, SMALL.num_users)
    parts = [whole.part(0, 25), whole.part(25, 60)]
    for column in ("others", "values"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert np.array_equal(joined, getattr(whole, column))
    assert [len(part.starts) for part in parts] == [26, 36]
    assert all(part.starts[-1] == len(part.values) for part in parts)


@pytest.mark.parametrize("method", ["sgd", "ccd"])
def test_the_plain_loop_comes_within_two_percent_of_the_noise(method: str) -> None:
    split = ratings.generated(300, 200, 60_000, factors=2, noise=0.5)
    *_, last = plain.METHODS[method](split, SUITED, 25, 0)
    assert split.floor < last < 1.02 * split.floor


def test_what_is_held_out_is_never_learned_from() -> None:
    drawn = np.arange(1000)
    all_of_them = ratings.Ratings(drawn, drawn, drawn.astype(np.float32))
    train, test = ratings.held_out(all_of_them, seed=0)
    assert len(test.users) == 100
    assert sorted([*train.users, *test.users]) == drawn.tolist()
    again, _ = ratings.held_out(all_of_them, seed=0)
    assert np.array_equal(again.users, train.users)


def test_blocks_of_dealt_items_have_as_many_ratings_each() -> None:
    popular = np.repeat(np.arange(40), np.arange(40, 0, -1))  # the first are rated most
    users = np.arange(len(popular)) % 7
    made = ratings.Ratings(users, popular, (users + 10 * popular).astype(np.float32))
    split = ratings.Split(made, made, 7, 40, 0.0)
    dealt = ratings.dealt(split, blocks=4)
    counts = np.bincount(dealt.train.items, minlength=40).reshape(4, 10).sum(axis=1)
    assert counts.max() - counts.min() <= 4
    place = dict(zip(popular.tolist(), dealt.train.items.tolist(), strict=True))
    assert sorted(place.values()) == list(range(40))  # each has its place
    assert all(place[i] == p for i, p in zip(popular, dealt.test.items, strict=True))


def test_ids_of_the_file_become_places() -> None:
    lines = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    lines += ["196\t242\t3\t881250949", "9\t302\t5\t1", "196\t7\t1\t2", ""]
    made = ratings.encode(lines)
    assert made.users.tolist() == [1, 0, 1]
    assert made.items.tolist() == [1, 2, 0]
    assert made.values.tolist() == [3, 5, 1]


def test_the_floor_is_the_noise_that_was_added() -> None:
    assert SMALL.floor == pytest.approx(0.5, rel=0.1)


def test_descending_in_sums_takes_the_steps_of_descending_along_ratings() -> None:
    p, q = drawn()
    users, items, values = SMALL.train
    d = p.shape[1]
    rows = np.pad(p, ((0, 0), (0, absorbing.absorbing_width(d) - d)))
    pieces = np.array_split(np.arange(len(values)), 5)
    for piece in pieces:
        absorbing.absorb(rows, q, users[piece], items[piece], values[piece], MEAN)
    absorbing.settle(rows, d, PENALTY)
    by_user = plain.by_row(users, items, values, SMALL.num_users)
    descent.descend(p, q, *by_user, MEAN, PENALTY, 0, d)
    np.testing.assert_allclose(rows[:, :d], p, atol=1e-3)
    assert not rows[:, d:].any()


def test_a_row_that_has_absorbed_nothing_does_not_settle() -> None:
    rows = np.ones((2, absorbing.absorbing_width(3)), np.float32)
    rows[:, 3:] = 0
    absorbing.settle(rows, 3, PENALTY)
    assert rows[:, :3].tolist() == np.ones((2, 3)).tolist()
