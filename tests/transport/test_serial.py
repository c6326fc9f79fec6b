import threading
from functools import partial

import pytest

from paceline.errors import Refused
from paceline.transport.serial import SerialQueue
from tests.transport.corridors import PATIENCE_S, run_threads


def raise_it(error: BaseException) -> None:
    raise error


def test_idle_queue_runs_on_the_submitting_thread() -> None:
    ran_on: list[threading.Thread] = []
    queue = SerialQueue(raise_it)
    queue.submit(lambda: ran_on.append(threading.current_thread()))
    assert ran_on == [threading.current_thread()]


def test_what_an_action_submits_runs_after_it() -> None:
    order: list[str] = []
    queue = SerialQueue(raise_it)

    def first() -> None:
        queue.submit(lambda: order.append("second"))
        order.append("first")

    queue.submit(first)
    assert order == ["first", "second"]


def test_busy_queue_takes_an_action_and_returns() -> None:
    queue = SerialQueue(raise_it)
    is_begun, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def long() -> None:
        is_begun.set()
        assert may_end.wait(PATIENCE_S)
        order.append("long")

    draining = threading.Thread(target=queue.submit, args=(long,))
    draining.start()
    assert is_begun.wait(PATIENCE_S)
    queue.submit(lambda: order.append(threading.current_thread().name))
    assert order == []
    assert queue.depth == 1
    may_end.set()
    draining.join(PATIENCE_S)
    assert order == ["long", draining.name]


def test_actions_of_many_threads_run_one_at_a_time_and_in_order() -> None:
    queue = SerialQueue(raise_it)
    order: list[tuple[int, int]] = []
    inside = 0

    def action(thread: int, number: int) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        order.append((thread, number))
        inside -= 1

    def submit(thread: int) -> None:
        for number in range(100):
            queue.submit(partial(action, thread, number))

    run_threads(*(threading.Thread(target=submit, args=(n,)) for n in range(4)))
    assert len(order) == 400
    for thread in range(4):
        assert [number for who, number in order if who == thread] == list(range(100))


def test_error_of_an_action_is_handed_over_and_the_queue_goes_on() -> None:
    errors: list[Exception] = []
    order: list[int] = []
    queue = SerialQueue(errors.append)
    failure = ValueError("no")
    queue.submit(lambda: raise_it(failure))
    queue.submit(lambda: order.append(1))
    assert errors == [failure]
    assert order == [1]


def test_interrupt_leaves_the_queue_usable() -> None:
    queue = SerialQueue(raise_it)
    order: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        queue.submit(lambda: raise_it(KeyboardInterrupt()))
    queue.submit(lambda: order.append(1))
    assert order == [1]


def test_full_queue_refuses() -> None:
    queue = SerialQueue(raise_it, max_depth=1)
    refusals: list[str] = []

    def action() -> None:
        queue.submit(lambda: None)
        try:
            queue.submit(lambda: None)
        except Refused as error:
            refusals.append(error.kind)

    queue.submit(action)
    assert refusals == ["not_ready"]
    queue.submit(lambda: None)
