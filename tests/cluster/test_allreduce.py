"""Values that travel between trainers: the same bits everywhere, each batch once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline.errors import UsageError

Run = Callable[..., list[Any]]
NUMBERS = torch.arange(96) % 7
ROUNDS = paceline.Sync(reduce="sum")


class Seen:
    """What a script keeps of the results, from round to round."""

    def __init__(self) -> None:
        self.counts = np.zeros(7, np.int64)
        self.sums: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts.copy(), "sums": list(self.sums)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts, self.sums = np.array(state["counts"]), list(state["sums"])


def loop(session: paceline.Session, how: str, width: int = 7) -> Seen:
    """Count the numbers, and add up their roots; keep every result."""
    table = session.table("numbers", (7,), "int64", pace=ROUNDS)
    seen = Seen()
    session.track(seen=seen)
    for batch in session.batches(NUMBERS, 4, epochs=2, seed=3, task_size=8):
        counts = np.bincount(batch.numpy(), minlength=width)
        roots = np.sqrt(np.arange(width) + batch.numpy().sum() / 3)
        total, sums = table.allreduce(counts, roots, how=how)
        seen.counts = seen.counts + total[:7]
        seen.sums.append(float(sums.sum()))
    return seen


@pytest.mark.parametrize("how", ["allreduce", "regroup+allgather", "auto"])
def test_every_record_counts_once_and_all_have_the_same_bits(run: Run, how: str) -> None:
    found = run(lambda session: loop(session, how))
    for seen in found:  # also of one that had no batch in the last rounds
        np.testing.assert_array_equal(seen.counts, 2 * np.bincount(NUMBERS.numpy()))
        assert seen.sums == found[0].sums


def loop_through_servers(session: paceline.Session) -> Seen:
    """As `loop`, in one array of the table's shape."""
    table = session.table("numbers", (2, 7), "float64", pace=ROUNDS)
    seen = Seen()
    session.track(seen=seen)
    for batch in session.batches(NUMBERS, 4, epochs=2, seed=3, task_size=8):
        counts = np.bincount(batch.numpy(), minlength=7)
        roots = np.sqrt(np.arange(7) + batch.numpy().sum() / 3)
        total = table.allreduce(np.stack([counts, roots]), how="push+pull")
        seen.counts = seen.counts + total[0].astype(np.int64)
        seen.sums.append(float(total[1].sum()))
    np.testing.assert_array_equal(table.pull()[1].sum(), seen.sums[-1])
    return seen


def test_servers_reduce_to_the_same_bits_on_all(run: Run) -> None:
    found = run(loop_through_servers)
    for seen in found:
        np.testing.assert_array_equal(seen.counts, 2 * np.bincount(NUMBERS.numpy()))
        assert seen.sums == found[0].sums


@pytest.mark.parametrize("how", ["allreduce", "regroup+allgather", "push+pull"])
def test_values_and_results_are_the_callers_own(run: Run, how: str) -> None:
    def script(session: paceline.Session) -> Any:
        table = session.table("t", (50, 4), "int64", pace=ROUNDS)
        values, kept = np.zeros((50, 4), np.int64), []
        seen = Seen()
        session.track(seen=seen)
        for batch in session.batches(NUMBERS, 4, seed=3, task_size=8):
            values[:] = int(batch.sum())
            found = table.allreduce(values, how=how)
            kept.append((found, int(found[0, 0])))
            assert (values == int(batch.sum())).all()
            assert not np.shares_memory(found, values)
            seen.counts = seen.counts + found[0, 0]
        assert all((found == number).all() for found, number in kept)
        return int(seen.counts[0])

    assert run(script) == [int(NUMBERS.sum())] * 3


HUGE = 1e16  # so large that the order of addition shows


@pytest.mark.parametrize("how", ["allreduce", "push+pull"])
def test_servers_add_in_the_order_of_the_trainers(run: Run, how: str) -> None:
    def script(session: paceline.Session) -> Any:
        rows = np.full((40, 3), -0.0)
        rows[7:] = [HUGE, 1.0, -HUGE][int(session.trainer[-1])]
        table = session.table("t", (40, 3), "float64", init=np.ones((40, 3)), pace=ROUNDS)
        batches = session.batches(torch.arange(3), 1, shuffle=False, task_size=1)
        [found] = [table.allreduce(rows, how=how) for _ in batches]
        return found

    expected = np.full((40, 3), -0.0)
    expected[7:] = (HUGE + 1.0) - HUGE
    for found in run(script):
        assert found.tobytes() == expected.tobytes()


def one_batch_each(session: paceline.Session, call: Callable[..., Any]) -> Any:
    """What a call comes to in the first round, which all three trainers are in."""
    table = session.table("t", (4,), "float64", pace=ROUNDS)
    own = np.arange(8.0).reshape(4, 2) + 10 * int(session.trainer[-1])
    batches = session.batches(torch.arange(3), 1, shuffle=False, task_size=1)
    [found] = [call(table, own) for _ in batches]
    return found


def test_regroup_gives_each_a_slice_of_the_sum(run: Run) -> None:
    found = run(lambda session: one_batch_each(session, lambda t, own: t.regroup(own)))
    whole = 3 * np.arange(8.0).reshape(4, 2) + 30
    assert sorted(rows for _, rows in found) == [(0, 1), (1, 2), (2, 4)]
    for values, rows in found:
        np.testing.assert_array_equal(values, whole[rows.start : rows.stop])


def test_allgather_gives_all_what_each_has_brought(run: Run) -> None:
    def call(table: paceline.Table, own: Any) -> Any:
        return table.allgather(own[: 1 + int(own[0, 0]) // 10, 0])

    for gathered in run(lambda session: one_batch_each(session, call)):
        assert [one.tolist() for one in gathered] == [[0], [10, 12], [20, 22, 24]]


def test_broadcast_gives_all_what_the_root_has_brought(run: Run) -> None:
    found = run(lambda s: one_batch_each(s, lambda t, own: t.broadcast(own, "trainer-2")))
    assert [one[0, 0] for one in found] == [20, 20, 20]


def test_reduce_gives_the_sum_to_the_first_alone(run: Run) -> None:
    found = run(lambda s: one_batch_each(s, lambda t, own: t.reduce(own)))
    assert [None if one is None else one[0, 0] for one in found] == [30, None, None]


def test_greatest_and_least_of_all(run: Run) -> None:
    def call(table: paceline.Table, own: Any) -> Any:
        return table.allreduce(own, rule="max", how="regroup+allgather")

    for found in run(lambda session: one_batch_each(session, call)):
        np.testing.assert_array_equal(found, np.arange(8.0).reshape(4, 2) + 20)


def test_different_calls_fail_at_once_and_name_both(run: Run) -> None:
    def call(table: paceline.Table, own: Any) -> Any:
        return table.allreduce(own, rule="max" if own[0, 0] else "add")

    with pytest.raises(UsageError, match=r"allreduce\(add, auto\).*allreduce\(max, auto\)"):
        run(lambda session: one_batch_each(session, call))


@pytest.mark.parametrize(
    ("pace", "calls", "match"),
    [
        (paceline.Async(), 1, "its pace is async, and values are exchanged in rounds"),
        (ROUNDS, 2, "the batch is over for this table: one call a batch"),
        (
            paceline.Sync(reduce="sum", backup=1, late="again"),
            1,
            "whose rounds do without some trainers",
        ),
    ],
)
def test_a_call_that_cannot_be_is_refused(
    run: Run, pace: Any, calls: int, match: str
) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), pace=pace)
        for _ in session.batches(torch.arange(4), 2):
            for _ in range(calls):
                table.allreduce(np.ones(3))

    with pytest.raises(UsageError, match=match):
        run(script, trainers=1)


def test_a_call_outside_of_a_loop_is_refused(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        session.table("t", (4,), pace=ROUNDS).allreduce(np.ones(3))

    with pytest.raises(UsageError, match="call it inside a loop"):
        run(script, trainers=1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"how": "ring"},
            r"how of auto, allreduce, regroup\+allgather, push\+pull, got 'ri",
        ),
        ({"how": "push+pull"}, r"expected one array of float32 \(4,\), got float64 \(3,\)"),
        ({"rule": "mean"}, "rule of add, max, min, got 'mean'"),
    ],
)
def test_options_that_are_none_are_refused(run: Run, options: Any, match: str) -> None:
    def script(session: paceline.Session) -> None:
        table = session.table("t", (4,), pace=ROUNDS)
        for _ in session.batches(torch.arange(4), 2):
            table.allreduce(np.ones(3), **options)

    with pytest.raises(UsageError, match=match):
        run(script, trainers=1)
