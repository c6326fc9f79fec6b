"""A round's slots are shared by threads; each still runs once, in its order."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from paceline.params.dense import OptimizeBlock
from paceline.server.slots import slots as slots_module
from paceline.server.slots.slots import LinedTurns, SlotQueue
from paceline.server.slots.turns import LEAST_BYTES, SlotRunners
from paceline.timing import ManualClock

PATIENCE_S = 10.0
CLOCK = ManualClock()


@pytest.fixture
def runners() -> Iterator[SlotRunners]:
    found = SlotRunners("server-0", num_threads=1)
    found.start()
    yield found
    found.close(PATIENCE_S)
    names = {thread.name for thread in threading.enumerate()}
    assert "server-0-runner-0" not in names


def raise_it(error: Exception) -> None:
    raise error


class Lined:
    """Turns at slots of their own, and who has run them."""

    def __init__(self, turns: list[Callable[[], object]]) -> None:
        self.ran: list[tuple[int, str]] = []
        self.all_ended = threading.Event()
        self._lock = threading.Lock()  # guards `ran`
        self._turns = turns
        self._queues = [SlotQueue(raise_it, CLOCK) for _ in turns]
        for index, slot in enumerate(self._queues):
            slot.place(partial(self._do, index), self._end, 0)

    def _do(self, index: int) -> None:
        self._turns[index]()
        with self._lock:
            self.ran.append((index, threading.current_thread().name))

    def _end(self) -> None:
        if len(self.ran) == len(self._turns):
            self.all_ended.set()

    def run(self) -> None:
        for slot in self._queues:
            slot.run()


def test_large_slots_run_at_once(runners: SlotRunners) -> None:
    both_at_it = threading.Barrier(2, timeout=PATIENCE_S)
    lined = Lined([both_at_it.wait, both_at_it.wait])
    runners.run(lined.run, LEAST_BYTES)
    assert lined.all_ended.wait(PATIENCE_S)
    assert {name for _, name in lined.ran} >= {"server-0-runner-0"}
    assert sorted(index for index, _ in lined.ran) == [0, 1]


def test_small_slots_are_run_by_who_brings_them(runners: SlotRunners) -> None:
    lined = Lined([lambda: None] * 5)
    runners.run(lined.run, LEAST_BYTES - 1)
    me = threading.current_thread().name
    assert lined.ran == [(index, me) for index in range(5)]


def test_every_slot_runs_once_however_many_run(runners: SlotRunners) -> None:
    all_lined = [Lined([lambda: None] * 7) for _ in range(50)]
    for lined in all_lined:
        runners.run(lined.run, LEAST_BYTES)
    for lined in all_lined:
        assert lined.all_ended.wait(PATIENCE_S)
        assert sorted(index for index, _ in lined.ran) == list(range(7))


def test_before_the_start_and_after_the_end_the_caller_runs_all() -> None:
    runners, me = SlotRunners("server-0", num_threads=1), threading.current_thread().name
    before, after = Lined([lambda: None] * 3), Lined([lambda: None] * 3)
    runners.run(before.run, LEAST_BYTES)
    runners.start()
    runners.close(PATIENCE_S)
    runners.run(after.run, LEAST_BYTES)
    assert before.ran == after.ran == [(index, me) for index in range(3)]


def test_a_block_comes_to_the_same_bits_whoever_runs_it(runners: SlotRunners) -> None:
    def block() -> OptimizeBlock:
        values = torch.linspace(-1, 1, 50_000)
        return OptimizeBlock(values, "Adam", {"lr": 0.1})

    gradient = torch.linspace(1, -2, 50_000)
    mine, shared = [block() for _ in range(4)], [block() for _ in range(4)]
    for _ in range(5):
        for one in mine:
            one.apply(gradient, {"lr": 0.1})
        lined = Lined([partial(one.apply, gradient, {"lr": 0.1}) for one in shared])
        runners.run(lined.run, LEAST_BYTES)
        assert lined.all_ended.wait(PATIENCE_S)
    for a, b in zip(mine, shared, strict=True):
        assert torch.equal(a.values, b.values)


def test_of_turns_that_end_at_once_one_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    lined = LinedTurns((), partial(order.append, "done"), (), 2, asker=None)

    class Contended:
        """A lock that another thread comes to at the same time, and gets first."""

        def __enter__(self) -> None:
            monkeypatch.setattr(slots_module, "_ENDING", threading.Lock())
            lined.ended()
            assert not order

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(slots_module, "_ENDING", Contended())
    lined.ended()
    assert order == ["done"]
