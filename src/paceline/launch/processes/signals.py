"""Being asked to stop, or to leave: Ctrl-C, SIGTERM, a closed terminal.

::

    Interrupts    the launcher's: counts them, while its loop looks
    Signals       hears them in a thread, also while a long call into native code runs
    LeaveNotice   a trainer's: tells its session, and sees to it that the process ends

Python runs handlers of its own between bytecodes, in the main thread. The interpreter's C
handler writes each signal's number to a wake-up descriptor at once, and whoever waits at
`Signals` reads it. A forked process is not this one: what is sent to it is not heard here.

Waits: `Signals.wait`, for as long as it is told to, and the daemon thread of a
`LeaveNotice`. One thread waits; the main thread makes and closes.
"""

import _thread
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, final

from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.machine import at_fork

if TYPE_CHECKING:
    from paceline.trainer.seat import Presence

# Those that there are: Windows has neither SIGHUP nor SIGUSR1.
CAUGHT: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)
)
# Of schedulers, which repeat them.
NOTICES = tuple(number for number in CAUGHT if number.name in {"SIGTERM", "SIGUSR1"})
ABANDON_S = 3.0
END_S = 8.0

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
            at_fork(before=_hold_back, after_in_parent=_let_pass, after_in_child=_forget)
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
        send_to_main(self._caught[0])

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


def send_to_main(number: signal.Signals) -> None:
    """Send a signal to the main thread, out of what it waits for where that can be."""
    main = threading.main_thread().ident
    assert main is not None
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(number)


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


@final
class LeaveNotice:
    """Tells one session when SIGTERM comes, as clouds and schedulers send it.

    ::

        at once      the session is told: its loop ends at the next batch, with exit code 75
        after 3 s    a step that is still computing is left alone: its data goes to others
        after 8 s    the process ends, whatever it does

    Code behind the loop (an evaluation, a report) is not hurried: it holds nothing of the
    job.
    """

    def __init__(
        self,
        session: "Presence",
        wait_s: Callable[[float], object] = time.sleep,
        end: Callable[[int], object] = os._exit,
        numbers: Sequence[signal.Signals] = (signal.SIGTERM,),
        told: Callable[[], None] = lambda: None,
    ) -> None:
        """Listen from now on; the main thread. ``end`` ends the process at once.

        ``numbers`` are the signals by which whoever has started the process ends it;
        ``told`` is called, by a thread, once one has come.
        """
        self._session, self._wait_s, self._end = session, wait_s, end
        self.is_told, self._told = False, told  # it came
        self._signals = Signals(numbers)
        self._thread = threading.Thread(target=self._run, name="leave-notice", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more: SIGTERM ends the process again."""
        self._signals.hang_up()
        self._thread.join()
        self._signals.close()

    def _run(self) -> None:
        if not self._signals.wait(None):
            return
        self.is_told = True
        self._told()
        self._session.leave_soon("SIGTERM")
        self._wait_s(ABANDON_S)
        if self._session.is_idle():
            return
        self._session.abandon()
        self._wait_s(END_S - ABANDON_S)
        if not self._session.is_idle():
            self._end(PREEMPTED_EXIT_CODE)


@final
class Interrupts:
    """Counts requests to stop while the ``with`` block runs; elsewhere than main, none.

    The launcher looks at ``count`` in its loop instead of being thrown out of it: so it
    always ends its children itself. Once asks for an orderly end, twice for an end at once.
    SIGTERM and SIGUSR1, which SLURM sends some time before (``--signal=USR1@120``), count
    once together, however often they come: schedulers repeat them, and nobody hurries.

    What is ignored when the block is entered stays ignored, and so it is for every process
    that is started meanwhile: ``nohup`` has a hang-up ignored, a shell Ctrl-C for what it
    runs in the background. SIGTERM is caught all the same: schedulers end a job by it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}  # Any: as the signal module has it

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in CAUGHT:
                is_ignored = signal.getsignal(number) is signal.SIG_IGN
                if is_ignored and number is not signal.SIGTERM:
                    continue
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number in NOTICES:
            self.count = max(self.count, 1)
        else:
            self.count += 1
