"""Turns at a slot follow the order of decisions; those beside each other run at once."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.config import Async
from paceline.messages.server import SlotLoad
from paceline.params.published import PublishedValues
from paceline.server.requests.contents import PushContents
from paceline.server.slots import slots as slots_module
from paceline.server.slots.slots import SlotQueue, Slots
from paceline.server.slots.turns import Action, BesideTurn
from paceline.server.standing import LOAD_EVERY_S, ServerCore
from paceline.timing import ManualClock
from tests.server.conftest import Server, make_plan

MakeServer = Callable[..., Server]

PATIENCE_S = 10.0
CLOCK = ManualClock()


def raise_it(error: BaseException) -> None:
    raise error


def nothing() -> None:
    pass


def never() -> None:
    raise AssertionError("it need not be alone")


def do(queue: SlotQueue, turn: BesideTurn | partial[None], owner: int = 0) -> None:
    queue.place(turn, nothing, owner)
    queue.run()


class Held:
    """A turn that runs until it is let go."""

    def __init__(self, order: list[str], name: str, *, has_ended: bool = True) -> None:
        self.begun, self._may_end = threading.Event(), threading.Event()
        self._order, self._name, self._has_ended = order, name, has_ended

    def attempt(self) -> bool:
        self.begun.set()
        assert self._may_end.wait(PATIENCE_S)
        if self._has_ended:
            self._order.append(self._name)
        return self._has_ended

    def alone(self) -> None:
        self._order.append(f"{self._name} alone")

    def begin(self, queue: SlotQueue, owner: int) -> threading.Thread:
        turn = BesideTurn(self.attempt, self.alone)
        thread = threading.Thread(target=do, args=(queue, turn, owner))
        thread.start()
        assert self.begun.wait(PATIENCE_S)
        return thread

    def let_go(self, thread: threading.Thread) -> None:
        self._may_end.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_turn_runs_on_the_thread_that_comes_by() -> None:
    ran_on: list[threading.Thread] = []
    do(
        SlotQueue(raise_it, CLOCK),
        partial(lambda: ran_on.append(threading.current_thread())),
    )
    assert ran_on == [threading.current_thread()]


def test_turns_alone_of_many_threads_run_one_at_a_time_and_in_order() -> None:
    queue, inside, order = SlotQueue(raise_it, CLOCK), 0, list[tuple[int, int]]()

    def turn(thread: int, number: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        order.append((thread, number))
        inside -= 1

    def submit(thread: int) -> None:
        for number in range(100):
            do(queue, partial(turn, thread, number))

    threads = [threading.Thread(target=submit, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    for number in range(4):
        assert [n for who, n in order if who == number] == list(range(100))


def test_turns_of_two_owners_run_at_once() -> None:
    queue, both = SlotQueue(raise_it, CLOCK), threading.Barrier(2, timeout=PATIENCE_S)

    def attempt() -> bool:
        both.wait()
        return True

    other = threading.Thread(target=do, args=(queue, BesideTurn(attempt, never), 1))
    other.start()
    do(queue, BesideTurn(attempt, never), 2)
    other.join(PATIENCE_S)
    assert not both.broken


def test_turns_of_one_owner_follow_each_other() -> None:
    queue, order = SlotQueue(raise_it, CLOCK), list[str]()
    push = Held(order, "push")
    thread = push.begin(queue, owner=1)
    read = BesideTurn(lambda: order.append("read") or True, never)  # type: ignore[func-returns-value]  # one line
    do(queue, read, owner=1)
    assert order == []
    push.let_go(thread)
    assert order == ["push", "read"]


def test_a_turn_alone_waits_for_those_before_and_holds_up_those_behind() -> None:
    queue, order = SlotQueue(raise_it, CLOCK), list[str]()
    one, two = Held(order, "one"), Held(order, "two")
    threads = [one.begin(queue, owner=1), two.begin(queue, owner=2)]
    do(queue, partial(order.append, "cut"))
    behind = BesideTurn(lambda: order.append("behind") or True, never)  # type: ignore[func-returns-value]  # one line
    do(queue, behind, owner=3)
    one.let_go(threads[0])
    assert order == ["one"]
    two.let_go(threads[1])
    assert order == ["one", "two", "cut", "behind"]


def test_a_turn_that_must_be_alone_is_next_before_what_was_placed_behind() -> None:
    queue, order = SlotQueue(raise_it, CLOCK), list[str]()
    makes, other = Held(order, "makes", has_ended=False), Held(order, "other")
    threads = [makes.begin(queue, owner=1), other.begin(queue, owner=2)]
    do(queue, partial(order.append, "cut"))
    makes.let_go(threads[0])
    assert order == [], "the other one is still at it"
    other.let_go(threads[1])
    assert order == ["other", "makes alone", "cut"]


def test_an_error_is_handed_over_and_the_queue_goes_on() -> None:
    errors, order = list[Exception](), list[int]()
    queue, failure = SlotQueue(errors.append, CLOCK), ValueError("no")
    do(queue, partial(raise_it, failure))
    do(queue, BesideTurn(lambda: raise_it(failure) or True, never), 1)  # type: ignore[func-returns-value]  # one line
    do(queue, partial(order.append, 1))
    assert errors == [failure, failure]
    assert order == [1]


def test_an_interrupt_leaves_the_queue_usable() -> None:
    queue, order = SlotQueue(raise_it, CLOCK), list[int]()
    with pytest.raises(KeyboardInterrupt):
        do(queue, partial(raise_it, KeyboardInterrupt()))
    do(queue, partial(order.append, 1))
    assert order == [1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(["alone", "beside", "turns alone"]), max_size=30))
def test_every_turn_has_its_effect_once_and_none_beside_one_alone(kinds: list[str]) -> None:
    queue, lock = SlotQueue(raise_it, CLOCK), threading.Lock()
    at_it = {"alone": 0, "beside": 0}
    ended: list[int] = []

    def run(kind: str, number: int) -> None:
        with lock:
            at_it[kind] += 1
            assert at_it["alone"] <= 1
            assert not at_it["alone"] or not at_it["beside"]
        with lock:
            at_it[kind] -= 1
            ended.append(number)

    def submit(owner: int) -> None:
        for number, kind in list(enumerate(kinds))[owner::3]:
            alone = partial(run, "alone", number)
            if kind == "alone":
                do(queue, alone, owner)
            else:
                do(queue, _beside(partial(run, "beside", number), alone, kind), owner)

    threads = [threading.Thread(target=submit, args=(owner,)) for owner in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(ended) == list(range(len(kinds)))


def _beside(run: partial[None], alone: partial[None], kind: str) -> BesideTurn:
    def attempt() -> bool:
        if kind == "beside":
            run()
        return kind == "beside"

    return BesideTurn(attempt, alone)


def test_who_is_full_is_known_without_being_asked_until_a_turn_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "MOST_WAITING", 2)
    full: set[SlotQueue] = set()
    queue, other = SlotQueue(raise_it, CLOCK, full), SlotQueue(raise_it, CLOCK, full)
    queue.place(nothing, nothing, 1)
    assert not full
    queue.place(nothing, nothing, 2)
    other.place(nothing, nothing, 2)
    assert full == {queue}
    assert queue.is_full
    queue.run()
    assert not full


def test_a_turn_that_goes_back_to_its_place_may_fill_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "MOST_WAITING", 1)
    full: set[SlotQueue] = set()
    queue, seen = SlotQueue(raise_it, CLOCK, full), []

    def come_first() -> bool:
        queue.place(lambda: seen.append(queue in full), nothing, 2)
        return False  # it must be alone, and goes before the other

    queue.place(BesideTurn(come_first, lambda: seen.append(queue in full)), nothing, 1)
    queue.run()
    assert seen == [True, False]
    assert not full


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Slots:
    """Two dense slots with turns of their own, as large blocks have."""
    monkeypatch.setattr(slots_module, "MOST_BYTES", 0)
    found = Slots("server-0", 0, raise_it, CLOCK, row_queues=2)
    found.create(make_plan(dtype="float32"))
    return found


def push(slots: Slots, done: Action, placed: Action = nothing) -> bool:
    """To both dense slots."""
    gradients = {0: torch.ones(6), 1: torch.ones(4)}
    contents = PushContents(({"lr": 0.1},), gradients, {})
    return slots.push(0, contents, (0, 1), 1, 7, done, placed)


def test_what_follows_a_push_that_nobody_waits_behind_is_its_senders(slots: Slots) -> None:
    assert push(slots, never)


def test_a_push_computes_nothing_before_it_has_let_the_lock_go(slots: Slots) -> None:
    values = slots.lent[0].values
    assert values is not None
    before = values.blocks[0].copy()
    found: list[bool] = []
    push(slots, never, lambda: found.append(bool((values.blocks[0] == before).all())))
    assert found == [True]
    assert (values.blocks[0] != before).any()


def test_a_push_that_finds_no_place_lets_the_lock_go(slots: Slots) -> None:
    let_go: list[str] = []
    contents = PushContents(({"lr": 0.1},), {}, {})
    with pytest.raises(KeyError):
        slots.push(9, contents, (0,), 1, 7, never, partial(let_go.append, "lock"))
    assert let_go == ["lock"]


@pytest.mark.parametrize("slot", [0, 1])
def test_a_push_is_told_of_before_those_behind_it_follow(slots: Slots, slot: int) -> None:
    order: list[str] = []

    def come_behind() -> None:
        slots.line_up({slot: partial(order.append, "behind")}, nothing)

    is_senders = push(slots, partial(order.append, "told"), come_behind)
    assert (order, is_senders) == {
        0: (["behind"], True),  # the push is not over before slot 1
        1: (["told", "behind"], False),
    }[slot]


def test_a_push_that_others_end_is_told_of_by_them(slots: Slots) -> None:
    order: list[object] = []

    def come_meanwhile() -> None:
        order.append(push(slots, partial(order.append, "told")))

    slots.line_up({1: come_meanwhile}, nothing)()
    assert order == [False, "told"]


def test_readers_of_lent_memory_may_read_before_the_answer_is_given(
    slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(PublishedValues, "done", lambda _: order.append("may be read"))
    turns = {0: partial(order.append, "first"), 1: partial(order.append, "second")}
    slots.line_up(turns, partial(order.append, "acknowledged"), changed=(0,))()
    assert order == ["first", "second", "may be read", "acknowledged"]


def test_small_blocks_have_their_turns_together() -> None:
    slots, order = Slots("server-0", 0, raise_it, CLOCK, row_queues=2), list[str]()
    slots.create(make_plan(dtype="float32"))
    run = slots.line_up({0: partial(order.append, "first")}, nothing)
    both = {0: partial(order.append, "second"), 1: partial(order.append, "third")}
    slots.line_up(both, partial(order.append, "done"))()
    run()
    assert order == ["first", "second", "third", "done"]


@pytest.mark.parametrize(
    ("pace", "is_shared"),
    [(Async(), True), (Async(merge=2), False), (Async(isolation="hogwild"), False)],
)
def test_neighbours_with_rows_share_a_queue_unless_turns_may_meet(
    pace: Async, is_shared: bool
) -> None:
    slots, order = Slots("server-0", 0, raise_it, CLOCK, row_queues=2), list[str]()
    slots.create(make_plan(pace=pace, dtype="float32"))

    def come_meanwhile() -> None:
        turns = {slot: partial(order.append, f"slot {slot}") for slot in (3, 4)}
        slots.line_up(turns, nothing)()
        order.append("slot 2")

    slots.line_up({2: come_meanwhile}, nothing)()
    assert order == (
        ["slot 4", "slot 2", "slot 3"] if is_shared else ["slot 3", "slot 4", "slot 2"]
    )


def test_in_one_process_a_server_has_one_queue_for_rows(
    make_server: MakeServer,
) -> None:
    service = make_server().service  # its address is of this process
    slots = service._standing.slots
    slots.create(make_plan(dtype="float32"))
    [layout] = slots.layouts.values()
    assert len(layout.row_slots) > 1
    assert len({slots.queues[slot] for slot in layout.row_slots}) == 1


def test_a_queue_counts_how_long_it_was_busy_and_how_many_waited() -> None:
    clock = ManualClock()
    queue = SlotQueue(raise_it, clock)
    for _ in range(3):
        queue.place(lambda: clock.advance(2.0), nothing, 0)
    queue.run()
    clock.advance(50.0)
    do(queue, partial(clock.advance, 1.0))

    assert (queue.busy_s, queue.longest) == (7.0, 3)


def test_what_a_servers_queues_had_to_do_is_told_now_and_then() -> None:
    clock = ManualClock()
    core = ServerCore("server-0", 0, clock, 2)
    core.slots.create(make_plan())
    with core.lock:
        assert core.load() is None
        clock.advance(LOAD_EVERY_S)
        first = core.load()
    assert first is not None
    assert [load.slot for load in first] == sorted({load.slot for load in first})

    core.slots.line_up({first[0].slot: partial(clock.advance, 2.0)}, nothing)()
    told = []
    for _ in range(2):
        clock.advance(LOAD_EVERY_S)
        with core.lock:
            told.append(core.load())
    assert [load[0] for load in told if load] == [SlotLoad(0, 2.0, 1), SlotLoad(0, 2.0, 0)]
