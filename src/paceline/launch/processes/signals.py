"""Signals of this process, heard by a thread: also while a long call into native code runs.

Python runs handlers of its own between bytecodes, in the main thread. The interpreter's C
handler writes each signal's number to a wake-up descriptor at once, and whoever waits here
reads it. A forked process is not this one: what is sent to it is not heard here.

Waits: `Signals.wait`, for as long as it is told to. One thread waits; the main thread makes
and closes.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, final

_hooks: list[str] = []  # what is registered in this process, once
_open: list["Signals"] = []  # those that listen; of the main thread


@final
class Signals:
    """Hears of some signals until it is closed."""

    def __init__(
        self,
        caught: Sequence[signal.Signals],
        came: Callable[[FrameType | None], object] = lambda _: None,
    ) -> None:
        """Listen from now on; the main thread, unless nothing is caught.

        ``came`` is called by the main thread as soon as it runs Python again, with what it
        was at; what it raises comes out there.
        """
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._caught, self._came = caught, came
        self._echoes = 0  # signals of our own that come back; the waiting thread's
        self._before: dict[signal.Signals, Any] = {}  # Any: as the signal module has it
        if not caught:
            return
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for number in caught:
            # Only a signal with a handler of Python's reaches the descriptor.
            self._before[number] = signal.signal(number, self._note)
        _open.append(self)
        if not _hooks:
            os.register_at_fork(
                before=_hold_back, after_in_parent=_let_pass, after_in_child=_forget
            )
            _hooks.append("fork")

    def wait(self, timeout_s: float | None) -> bytes:
        """The numbers of signals that came; none after ``timeout_s``, or once closed."""
        self._read.settimeout(timeout_s)
        while True:
            try:
                numbers = self._read.recv(64)
            except TimeoutError:
                return b""
            # Those that others have handlers for come here, too.
            found = bytes(number for number in numbers if number in self._caught)
            echoes = min(self._echoes, len(found))
            self._echoes -= echoes
            if not numbers or len(found) > echoes or timeout_s is not None:
                return found[echoes:]

    def knock(self) -> None:
        """Have ``came`` called once more; it may be waiting in a system call."""
        self._echoes += 1
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, self._caught[0])

    def hang_up(self) -> None:
        """Signals mean what they meant before, and whoever waits returns; main thread."""
        self.restore()
        with contextlib.suppress(OSError):
            self._write.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """After `hang_up`, when nobody waits any more."""
        self._read.close()
        self._write.close()

    def restore(self) -> None:
        """Have signals mean what they meant before, where nobody has changed it since."""
        if self not in _open:
            return
        _open.remove(self)
        signal.set_wakeup_fd(-1)
        for number, before in self._before.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, signal.SIG_DFL if before is None else before)

    @property
    def caught(self) -> Sequence[signal.Signals]:
        """What is listened to."""
        return self._caught

    def _note(self, number: int, frame: FrameType | None) -> None:
        own = self._write.fileno()
        has_it = signal.set_wakeup_fd(own, warn_on_full_buffer=False)
        if has_it != own:  # it was given to somebody else since (asyncio does)
            signal.set_wakeup_fd(has_it)
            with contextlib.suppress(OSError):
                self._write.send(bytes([number]))
        self._came(frame)


def _all_caught() -> set[signal.Signals]:
    return {number for one in _open for number in one.caught}


def _hold_back() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _all_caught())


def _let_pass() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _all_caught())


def _forget() -> None:
    """In a forked process."""
    caught = _all_caught()
    if threading.current_thread() is threading.main_thread():
        while _open:
            _open[0].restore()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
