"""The calls of one session that take their time: one at a time, and none after the end.

::

    loop       open until its end, also by `break`
    calling    a loop, an evaluation; at its end the last numbers are sent
    giving up  an exception that came after the loop's begin is being handled, or has ended
               the script: calls are answered, and it has not gone on behind its loop
    over       what is registered with `atexit` runs: no call goes on behind a loop either

Waits for nothing. The thread of the user's script calls, never a forked process; what is
open may be looked at by any.
"""

import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal, Protocol, final

from paceline.errors import Interrupted, Preempted, UsageError
from paceline.trainer.engine.engine import StepWarning

_NO_BATCH = (
    "step() without a batch: a step belongs to the batches of a loop over "
    "session.batches, and none is open; a loop that takes batches ahead of "
    "their steps says so: session.batches(..., lookahead=1)"
)
_NO_LOOP = (
    "step() without a batch: a step belongs to the batches of a loop over "
    "session.batches, and none was ever begun; do you loop over a DataLoader? write "
    "session.batches(loader.dataset, batch_size=...)"
)
_VOID = "step dropped: the loop was stopped, and this batch was taken ahead of its step"


class MayBegin(Protocol):
    """Whose script calls."""

    @property
    def must_begin_again(self) -> str | None:
        """Why the script must be started again; None if it need not."""


@final
class Calls:
    """What is under way in a session."""

    def __init__(
        self,
        trainer: MayBegin,
        send_log: Callable[[], None],
        end_loop: Callable[[], None],
        has_left: Callable[[], bool] = lambda: False,
    ) -> None:
        """Nothing is under way.

        ``end_loop``: the script goes on behind a loop, if it has left one early. Whether it
        was left by `break` or by an exception, only its next call tells. ``has_left``:
        whether it has left a loop early that has not ended since.
        """
        self.open_call: str | None = None  # that is under way; None between them
        self.loop: Generator[Any, None, None] | None = None  # the user's, if it is open
        # How far any loop has come: its end counts where it was not left early.
        self.loops: Literal["none", "begun", "ended"] = "none"
        self.is_closed = False  # the session is over
        self.has_failed = False  # the script has: then it goes on nowhere
        self.locks: list[object] = []  # open blocks under locks, the outermost first
        self.taken_in: int | None = None  # the thread that takes batches of the open loop
        self.num_void = 0  # batches in hand whose loop has ended for all
        self.is_interrupted = False  # the user wants a script to end that is its whole job
        self.was_told = False  # that has reached the script
        self.is_late = False  # Ctrl-C came within code of ours: the next batch raises it
        # What holds while a call is under way.
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        # The loop, if nothing is left to take, and steps are awaited.
        self.spent: Generator[Any, None, None] | None = None
        self._trainer, self._send_log = trainer, send_log
        self._end_loop, self._has_left = end_loop, has_left
        self._handled: BaseException | None = None  # when the last loop was begun
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """Whether the session is open, and this its process and no fork of it."""
        return not self.is_closed and os.getpid() == self._pid

    def giving_up(self) -> BaseException | None:
        """What is being handled and was not when the loop was begun: a way out of it.

        Or what has ended the script, where the interpreter keeps that as it dies.
        """
        handled = sys.exception()
        if handled is None and is_script_over() and not hasattr(sys, "ps1"):
            handled = getattr(sys, "last_value", None)
        return None if handled is self._handled else handled

    def check_open(self) -> None:
        """Refuse a call that cannot be made any more.

        Raises:
            UsageError: the session is closed.
            Preempted: the script must begin again.
        """
        if self.is_closed:
            raise UsageError("the session is closed; connect again")
        if self.open_call is None and not (
            self.has_failed or is_script_over() or self.giving_up() is not None
        ):
            self._end_loop()
        if (why := self._trainer.must_begin_again) is not None:
            raise Preempted(why)

    def check_own(self) -> None:
        """Refuse a call in a forked process.

        Raises:
            UsageError: this is one.
        """
        if os.getpid() != self._pid:
            raise UsageError(
                f"the session belongs to process {self._pid}; a forked process must not "
                "use it: read data there, train here"
            )

    def check_idle(self, call: str, instead: str) -> None:
        """Refuse a call that cannot be made inside another one.

        Raises:
            UsageError: a loop or an evaluation is open; or an exception has ended a loop
                and is being handled, so that nobody knows whether the script goes on.
        """
        if self.spent is not None:
            spent, self.spent = self.spent, None
            spent.close()
        self.check_open()
        if self.open_call is not None:
            raise UsageError(f"{call}: {instead}")
        if not self._has_left():
            return
        if is_script_over():
            raise UsageError(f"{call}: a loop was left early, and the script is over")
        if (error := self.giving_up()) is not None:
            raise UsageError(
                f"{call}: a loop was left by {type(error).__name__}, which is being "
                f"handled; call {call} behind the except block, once the script goes on"
            )

    def begin_step(self) -> bool:
        """A step is to begin; false if the loop of its batch, in hand, has ended meanwhile.

        Raises:
            UsageError: the session is closed, no loop is open, or another thread takes
                the batches of the one that is.
            Preempted: the script must begin again.
        """
        self.check_open()
        if self.open_call is None:
            if not self.num_void:
                raise UsageError(_NO_LOOP if self.loops == "none" else _NO_BATCH)
            self.num_void -= 1
            warnings.warn(_VOID, StepWarning, stacklevel=4)
            return False
        if self.taken_in not in (None, threading.get_ident()):
            raise UsageError(
                "step(): another thread takes the batches of this loop, and nothing tells "
                "which of them a step is for: take batches in the thread that steps; "
                "session.batches(..., workers=n) reads them ahead, in processes of its own"
            )
        return True

    def go_on(self) -> None:
        """A step is over: a loop of which nothing can be taken goes on to its end."""
        if self.spent is not None and next(self.spent, None) is None:
            self.spent = None

    def iterate(self, batches: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """The user's loop: it is open until its end, also by `break`.

        Raises:
            UsageError: another loop is open.
        """
        self.check_idle("batches", "a loop is open already; end it or close() it first")
        self.loop, self._handled = batches, sys.exception()
        if self.loops == "none":
            self.loops = "begun"
        with self.calling("batches"):
            try:
                yield from batches
            except ValueError:  # it is collected while `Session.close` closes ``batches``
                if inspect.getgeneratorstate(batches) != inspect.GEN_RUNNING:
                    raise
        self.loops = "ended"

    @contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """A call is under way; at its end the last numbers are sent.

        Raises:
            Interrupted: it was left since the user wants the script to end.
        """
        self.open_call = call
        try:
            with self.around():
                yield
        except Preempted as told:
            if not self.is_interrupted:
                raise
            self.was_told = True
            raise Interrupted(told.reason) from None
        finally:
            self.loop = None
            try:
                if self.is_here():
                    self._send_log()
            finally:
                self.open_call = None


def is_script_over() -> bool:
    """Whether this is called by what is registered with `atexit`.

    It runs in the main thread, which counts as ended by then.
    """
    main = threading.main_thread()
    return threading.current_thread() is main and not main.is_alive()
