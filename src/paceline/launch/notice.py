"""Being told to leave: SIGTERM to a trainer, as clouds and schedulers send it.

::

    at once      the session is told: its loop ends at the next batch, with exit code 75
    after 3 s    a step that is still computing is left alone: its data goes to others
    after 8 s    the process ends, whatever it does

A thread learns of the signal through the interpreter's wake-up descriptor, so that a long
call into native code, which keeps Python's own handlers waiting, does not hide it. Code
behind the loop (an evaluation, a report) is not hurried: it holds nothing of the job.

Waits: for a signal, without a bound, in a daemon thread; then as above.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol, final

from paceline.errors import PREEMPTED_EXIT_CODE

ABANDON_S = 3.0
END_S = 8.0

_hooks: list[str] = []  # what is registered in this process, once


class Leaver(Protocol):
    """What can be told to leave; a `Session`."""

    def leave_soon(self, reason: str) -> None:
        """Leave at the next batch."""

    def abandon(self) -> None:
        """Give up what is held."""

    def is_idle(self) -> bool:
        """Whether nothing is held."""


@final
class LeaveNotice:
    """Tells one session when SIGTERM comes."""

    def __init__(
        self,
        session: Leaver,
        wait_s: Callable[[float], object] = time.sleep,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """Listen from now on; the main thread.

        Args:
            session: who is told.
            wait_s: lets so many seconds pass.
            end: ends the process with an exit code, at once.
        """
        self._session, self._wait_s, self._end = session, wait_s, end
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="leave-notice", daemon=True)
        self._thread.start()
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        # Only a signal with a handler of Python's reaches the descriptor.
        signal.signal(signal.SIGTERM, self._note)
        if not _hooks:
            os.register_at_fork(
                before=_hold_back, after_in_parent=_let_pass, after_in_child=_forget
            )
            _hooks.append("fork")

    def close(self) -> None:
        """Listen no more: SIGTERM ends the process again."""
        _listen_no_more()
        with contextlib.suppress(OSError):
            self._write.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._read.close()
        self._write.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        # The descriptor may have been given to somebody else since (asyncio does).
        del frame
        with contextlib.suppress(OSError):
            self._write.send(bytes([number]))

    def _run(self) -> None:
        while (came := self._read.recv(64)) and signal.SIGTERM not in came:
            continue
        if not came:
            return
        self._session.leave_soon("SIGTERM")
        self._wait_s(ABANDON_S)
        if self._session.is_idle():
            return
        self._session.abandon()
        self._wait_s(END_S - ABANDON_S)
        if not self._session.is_idle():
            self._end(PREEMPTED_EXIT_CODE)


def _listen_no_more() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _hold_back() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_pass() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _forget() -> None:
    """A forked process is not the trainer: a signal to it must not reach the session."""
    if threading.current_thread() is threading.main_thread():
        _listen_no_more()
    _let_pass()
