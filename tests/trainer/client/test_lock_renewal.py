"""Locks are heard of as long as they are held, and no thread is left behind."""

import threading

from paceline.messages.locking import KeepLocks
from paceline.trainer.client.lock_renewal import HeldLock, LockKeeper

PATIENCE_S = 10.0


def test_servers_hear_of_a_lock_until_it_is_let_go() -> None:
    heard: list[tuple[str, KeepLocks]] = []
    is_heard = threading.Event()

    def tell(server: str, message: KeepLocks) -> None:
        heard.append((server, message))
        if len(heard) == 1:
            raise OSError("nobody is there")  # the next one is told all the same
        is_heard.set()

    keeper = LockKeeper(tell)
    held = HeldLock(7, 2, 3, 11, ("server-0", "server-1"))
    keeper.keep(held)
    assert is_heard.wait(PATIENCE_S)
    keeper.let_go(held)
    keeper.stop(PATIENCE_S)
    sign = KeepLocks(incarnation=7, timeline=2, numbers={3: (11,)})
    assert heard[:2] == [("server-0", sign), ("server-1", sign)]
    assert not [t for t in threading.enumerate() if t.name == "trainer-locks"]


def test_who_holds_nothing_has_no_thread() -> None:
    keeper = LockKeeper(lambda _server, _message: None)
    keeper.stop(PATIENCE_S)
    assert not [t for t in threading.enumerate() if t.name == "trainer-locks"]
