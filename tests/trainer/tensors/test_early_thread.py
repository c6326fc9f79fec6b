"""What goes over a network is sent beside the loop, in order, or not at all."""

import threading

from paceline.timing import Deadline, SystemClock
from paceline.trainer.tensors.backward_overlap import SendingThread

PATIENCE_S = 10.0


def test_what_is_handed_is_sent_in_order_by_another_thread() -> None:
    sending, sent, all_sent = SendingThread(), [], threading.Event()
    for number in range(20):
        sending.hand(lambda number=number: sent.append((number, threading.get_ident())))  # type: ignore[misc]  # a default binds
    sending.hand(all_sent.set)
    assert all_sent.wait(PATIENCE_S)
    sending.withdraw()
    assert [number for number, _ in sent] == [*range(20)]
    assert threading.get_ident() not in {ident for _, ident in sent}


def test_a_thread_ends_when_there_is_nothing_left_and_the_next_one_goes_on() -> None:
    sending, names = SendingThread(), []
    for _ in range(3):
        done = threading.Event()
        sending.hand(lambda: names.append(threading.current_thread().name))
        sending.hand(done.set)
        assert done.wait(PATIENCE_S)
        sending.withdraw()
        assert "paceline-early" not in {t.name for t in threading.enumerate()}
    assert names == ["paceline-early"] * 3


def test_what_was_withdrawn_is_not_sent_and_what_was_begun_is_waited_for() -> None:
    sending, sent = SendingThread(), []
    begun, may_end = threading.Event(), threading.Event()

    def send() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        sent.append("first")

    sending.hand(send)
    sending.hand(lambda: sent.append("second"))
    assert begun.wait(PATIENCE_S)
    withdrawing = threading.Thread(target=sending.withdraw)
    withdrawing.start()
    deadline = Deadline(SystemClock(), PATIENCE_S)
    while sending.num_waiting():
        assert not deadline.is_over()
    assert withdrawing.is_alive(), "what was begun is still being sent"
    may_end.set()
    withdrawing.join(PATIENCE_S)
    assert sent == ["first"]
