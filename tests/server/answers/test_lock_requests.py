"""Locks and held pushes at a server: without a lock no write, of half a step nothing."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import pytest

from paceline.config import Async, Combine, Zeros
from paceline.ids import OF_NO_BATCH, Window
from paceline.messages.data import PullRows, Push, Pushed
from paceline.messages.locking import ApplyStep, KeepLocks, Lock, Locked, RowSlots, Unlock
from paceline.messages.server import Fence, Snapshot
from paceline.messages.shared import (
    Done,
    Message,
    PartPlan,
    PartSpec,
    Refusal,
    TableSpec,
    Waiting,
)
from paceline.messages.waits import Wait
from tests.server.conftest import Answered, Server, group, task_key, window

LEASE_S = 5.0
Array = np.ndarray[Any, np.dtype[Any]]


@final
class HandClock:
    """Says what the test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_s(self) -> float:
        return self.now


def make_plan() -> PartPlan:
    """Part 0: a keyed table of two whole numbers in slots 0 to 2."""
    table = TableSpec("user", 2, Combine(dtype="int64", shape=(2,)), Zeros())
    spec = PartSpec(0, (), None, (table,), Async())
    return PartPlan(spec, (), 0, 3, dict.fromkeys(range(3), "server-0"))


def slots_of(ids: Sequence[int], *, replaces: bool = False) -> tuple[Array, RowSlots]:
    order, rows = group(ids)
    here = tuple(slot - 2 for slot in rows.slots)  # no dense slots come before
    return order, RowSlots(rows.table, here, rows.counts, replaces)


@final
class TableServer:
    """A server with one table, and trainers who speak to it."""

    def __init__(self, server: Server, clock: HandClock) -> None:
        self.server, self.clock = server, clock

    def lock(
        self, trainer: int, *ids: int, number: int = 1, shared: bool = False
    ) -> Answered:
        order, rows = slots_of(ids)
        message = Lock(
            incarnation=trainer,
            timeline=0,
            part=0,
            number=number,
            rows=rows,
            is_shared=shared,
            lease_s=LEASE_S,
        )
        return self.server.submit(message, [np.array(ids, np.int64)[order]], trainer)

    def locked(self, trainer: int, *ids: int, number: int = 1) -> int:
        """The token of a lock that is to be had at once."""
        answer = self.lock(trainer, *ids, number=number).wait()
        assert isinstance(answer, Locked), answer
        return answer.token

    def write(
        self,
        trainer: int,
        values: dict[int, int],
        *,
        number: int = 1,
        token: int | None = None,
        held: bool = False,
        completes: dict[int, int] | None = None,
        of: Window = OF_NO_BATCH,
    ) -> Message:
        order, rows = slots_of(list(values), replaces=True)
        ids = np.array(list(values), np.int64)[order]
        numbers = np.array([[v, v] for v in values.values()], np.int64)[order]
        message = Push(
            incarnation=trainer,
            timeline=0,
            part=0,
            number=number,
            window=of,
            records=0,
            rows=(rows,),
            token=token,
            is_held=held,
            completes=completes or {},
        )
        return self.server.ask(message, [ids, numbers], trainer)

    def apply(self, trainer: int, number: int, *, dropped: bool = False) -> Message:
        step = {0: number}
        who = {"incarnation": trainer, "timeline": 0}
        return self.server.ask(
            ApplyStep(**who, pushes=step, is_dropped=dropped), trainer=trainer
        )

    def rows(self, *ids: int) -> list[int]:
        order, rows = slots_of(ids)
        message = PullRows(incarnation=99, timeline=0, part=0, rows=(rows,), create=False)
        answered = self.server.submit(message, [np.array(ids, np.int64)[order]])
        answered.wait()
        found = np.empty((len(ids), 2), np.int64)
        found[order] = answered.buffers[0].view(np.int64).reshape(-1, 2)
        return found[:, 0].tolist()


@pytest.fixture
def table(make_server: Callable[..., Server]) -> TableServer:
    clock = HandClock()
    return TableServer(make_server(plan=make_plan(), clock=clock), clock)


def is_refused(answer: Message, kind: str, says: str) -> bool:
    return isinstance(answer, Refusal) and answer.kind == kind and says in answer.text


def test_rows_come_with_the_lock_and_go_with_the_write(table: TableServer) -> None:
    token = table.locked(11, 5, 6)
    waits = table.lock(12, 6, 7)
    assert not waits.is_given()
    answer = table.write(11, {5: 50, 6: 60}, token=token)
    assert isinstance(answer, Pushed)
    assert isinstance(waits.wait(), Locked)
    assert sorted(waits.buffers[0].view(np.int64).tolist()) == [0, 0, 60, 60]


def test_a_write_under_no_lock_of_its_own_is_refused(table: TableServer) -> None:
    token = table.locked(11, 5)
    assert is_refused(table.write(12, {5: 1}, token=token), "lock_lost", "out of date")
    assert is_refused(table.write(11, {6: 1}, token=token), "lock_lost", "not of row 6")
    table.clock.now += LEASE_S
    answer = table.write(11, {5: 1}, token=token, number=2)
    assert is_refused(answer, "lock_lost", "was not heard of for 5 s")
    assert table.rows(5, 6) == [0, 0]


def test_who_shows_a_sign_of_life_keeps_its_lock(table: TableServer) -> None:
    token = table.locked(11, 5)
    for _ in range(4):
        table.clock.now += LEASE_S / 2
        table.server.ask(KeepLocks(incarnation=11, timeline=0, numbers={0: (1,)}))
    assert isinstance(table.write(11, {5: 1}, token=token), Pushed)


def test_who_waits_is_told_for_whom(table: TableServer) -> None:
    table.locked(11, 5)
    waits = table.lock(12, 5)
    table.clock.now += 2.0
    answer = waits.wait()
    assert isinstance(answer, Waiting)
    reason = "trainer-11 holds row 5 since 2.0 s"
    assert answer.wait == Wait("lock", reason, ("trainer-11",), 0, 2.0)
    again = table.lock(12, 5)
    table.clock.now += 1.5
    answer = again.wait()
    assert isinstance(answer, Waiting)
    assert answer.wait.since_s == 3.5, "it keeps its place, and waits on"
    again = table.lock(12, 5)
    unlock = Unlock(incarnation=11, timeline=0, part=0, number=1)
    assert table.server.ask(unlock) == Done()
    assert isinstance(again.wait(), Locked)


def test_a_held_push_has_its_effect_with_its_step(table: TableServer) -> None:
    token = table.locked(11, 5)
    answer = table.write(11, {5: 1}, token=token, held=True)
    assert isinstance(answer, Pushed)
    assert answer.verdict == "held"
    waits = table.lock(12, 5)
    table.clock.now += 3 * LEASE_S  # the lock outlasts its lease until the verdict is there
    assert isinstance(waits.wait(), Waiting)
    assert table.rows(5) == [0]
    assert table.apply(11, 1) == Done()
    assert table.rows(5) == [1]
    assert table.apply(11, 1) == Done()
    assert isinstance(table.lock(12, 5).wait(), Locked)


def test_a_held_push_that_is_dropped_has_none(table: TableServer) -> None:
    token = table.locked(11, 5)
    table.write(11, {5: 1}, token=token, held=True)
    assert table.apply(11, 1, dropped=True) == Done()
    assert table.apply(11, 1) == Done()
    assert table.rows(5) == [0]
    assert isinstance(table.lock(12, 5).wait(), Locked)


@pytest.mark.parametrize("committed", [0, 1])
def test_a_fence_carries_the_last_step_and_frees_the_rows(
    table: TableServer, committed: int
) -> None:
    token = table.locked(11, 5)
    table.write(11, {5: 1}, token=token, held=True, of=window(0))
    waits = table.lock(12, 5)
    fence = Fence(incarnation=11, keys=(task_key(),), rounds={}, step={0: committed})
    report = table.server.coordinator.order(fence, until=lambda r: bool(r.answers))
    [fenced] = report.answers
    assert [entry.marks for entry in fenced.marks] == [(committed - 1,)]  # type: ignore[union-attr]  # it was a fence
    assert isinstance(waits.wait(), Locked)
    assert table.rows(5) == [committed]


def test_a_cut_has_all_steps_that_were_committed_before(table: TableServer) -> None:
    for trainer, row in ((11, 5), (12, 6)):
        token = table.locked(trainer, row)
        table.write(trainer, {row: 1}, token=token, held=True)
    order = Snapshot(cut=0, folder="cut-0", rounds={}, steps={11: {0: 1}})
    table.server.coordinator.order(order, until=lambda r: r.pinned_cut == 0)
    assert table.rows(5, 6) == [1, 0]


def test_held_pushes_of_two_trainers_to_neighbouring_slots_both_have_their_effect(
    table: TableServer,
) -> None:
    evens, odds = range(0, 24, 2), range(1, 24, 2)
    table.write(11, dict.fromkeys(evens, 1), held=True)
    table.write(12, dict.fromkeys(odds, 1), held=True)
    order = Snapshot(cut=0, folder="cut-0", rounds={}, steps={11: {0: 1}, 12: {0: 1}})
    table.server.coordinator.order(order, until=lambda r: r.pinned_cut == 0)
    assert table.rows(*range(24)) == [1] * 24


def test_one_push_of_a_trainer_is_held_at_a_time(table: TableServer) -> None:
    table.write(11, {5: 1}, held=True)
    answer = table.write(11, {5: 2}, held=True, number=2)
    assert is_refused(answer, "stale", "waits for its step")


def test_a_step_to_one_server_has_its_effect_with_its_last_push(
    table: TableServer,
) -> None:
    token = table.locked(11, 5)
    answer = table.write(11, {5: 1}, token=token, held=True, completes={0: 1})
    assert isinstance(answer, Pushed)
    assert answer.verdict == "applied"
    assert table.rows(5) == [1]
    assert isinstance(table.lock(12, 5).wait(), Locked)
    again = table.write(11, {5: 1}, token=token, held=True, completes={0: 1})
    assert isinstance(again, Pushed)
    assert again.verdict == "duplicate"
    assert table.rows(5) == [1]


def test_a_step_that_is_not_all_here_is_held(table: TableServer) -> None:
    answer = table.write(11, {5: 1}, held=True, completes={0: 1, 1: 1})
    assert isinstance(answer, Pushed)
    assert answer.verdict == "held"
    assert table.rows(5) == [0]
