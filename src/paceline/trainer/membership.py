"""One process as a member of the job: it joins, shows that it lives, and leaves.

Whatever the user's script does, this is what the job has of it: acts are driven here, one
loop is open at a time, the last numbers are sent before the end.

Waits: for coordinator and servers, with `timeout_s` for each reply. One thread calls, and
never a forked process; `leave_soon`, `abandon` and `is_idle` may be called by any.
"""

import os
import platform
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, final

from paceline.config import Pace
from paceline.errors import PacelineError, Preempted, UsageError
from paceline.messages import Leave, Log, Message
from paceline.timing import Clock
from paceline.trainer.carrier import Carrier
from paceline.trainer.client import Courier, Driver
from paceline.trainer.heartbeat import Heartbeat
from paceline.trainer.logbook import Logbook
from paceline.trainer.protocol import TrainerProtocol

PATIENCE = 6  # time-outs for which the coordinator may be away


@final
class Membership:
    """A process that has joined.

    Attributes:
        driver: talks to the other roles.
        carrier: runs acts together with the numbers of parts.
        pace: of the job.
        open_call: the call that is under way (a loop, an evaluation); None between them.
    """

    def __init__(
        self, trainer: str, courier: Courier, clock: Clock, timeout_s: float
    ) -> None:
        """Join; returns when all servers of the job are there.

        Raises:
            JobFailed: there is no coordinator.
        """
        self._pid = os.getpid()
        self._clock, self._timeout_s = clock, timeout_s
        self._protocol = TrainerProtocol(
            trainer, self._pid, platform.node(), patience_s=PATIENCE * timeout_s
        )
        self.driver = Driver(self._protocol, courier, clock, timeout_s)
        self.carrier = Carrier(self._protocol, self.driver)
        self.open_call: str | None = None
        self._loop: Generator[Any, None, None] | None = None
        self._logbook = Logbook()
        self._is_closed = False
        try:
            self.carrier.run(self._protocol.join())
        except BaseException:
            self.driver.close()
            raise
        joined = self._protocol.joined
        assert joined is not None
        self.pace: Pace = joined.pace
        self._heartbeat = Heartbeat(self.driver, clock, joined.beat_s)
        self._heartbeat.start()

    # ------------------------------------------------------------ calls of the user's

    def ask(self, message: Message) -> Message:
        """Ask the coordinator, as who the trainer is now.

        Raises:
            UsageError: the session is closed.
            Preempted: the script must begin again.
        """
        self.check_open()
        return self.carrier.ask(message)

    def check_open(self) -> None:
        """Refuse a call that cannot be made any more.

        Raises:
            UsageError: the session is closed.
            Preempted: the script must begin again.
        """
        if self._is_closed:
            raise UsageError("the session is closed; connect again")
        if self.must_begin_again is not None:
            raise Preempted(self.must_begin_again)

    def check_idle(self, call: str, instead: str) -> None:
        """Refuse a call that cannot be made inside another one.

        Raises:
            UsageError: a loop or an evaluation is open.
        """
        self.check_open()
        if self.open_call is not None:
            raise UsageError(f"{call}: {instead}")

    def iterate(self, batches: Generator[Any, None, None]) -> Iterator[Any]:
        """The user's loop: it is open until its end, also by `break`.

        Raises:
            UsageError: another loop is open.
        """
        self.check_idle("batches", "a loop is open already; end it or close() it first")
        self._loop = batches
        with self.calling("batches"):
            yield from batches

    @contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """A call is under way; at its end the last numbers are sent."""
        self.open_call = call
        try:
            yield
        finally:
            self.open_call = self._loop = None
            if not self._is_closed and os.getpid() == self._pid:
                self._send_log()

    def log(self, numbers: dict[str, object]) -> None:
        """Note numbers; they are sent now and then, the last of each name.

        Raises:
            UsageError: a value is no number.
        """
        self.check_open()
        if self._logbook.add(numbers, self._clock.now_s()):
            self._send_log()

    # ------------------------------------------------------------ leaving

    def close(self) -> None:
        """Leave the job; see `Session.close`."""
        if self._is_closed or os.getpid() != self._pid:
            return
        try:
            if self._loop is not None:
                self.leave_soon("the session is closed")  # in the middle: no `break`
                self._loop.close()
            self._send_log()
        except (PacelineError, ValueError):
            pass  # the job is gone, or another thread is in the loop: it will be lost
        finally:
            self._is_closed = True
            self._heartbeat.stop(self._timeout_s)
            self.driver.tell_computed()
            told = self._protocol.leaving or self._protocol.must_begin_again
            self._tell_leave(is_done=told is None)
            self.driver.close()

    def leave_soon(self, reason: str) -> None:
        """End the open call at its next batch, by `Preempted`; any thread may call."""
        self._protocol.leaving = reason

    def abandon(self) -> None:
        """Give the membership up, whatever the script does; any thread may call."""
        self._tell_leave(is_done=False)

    @property
    def must_begin_again(self) -> str | None:
        """Why the script must be started again; None if it need not."""
        return self._protocol.must_begin_again

    def is_idle(self) -> bool:
        """Whether nothing of the job is held here: nothing is open, nothing is asked."""
        return self.open_call is None and not self.driver.waiting_for

    def _tell_leave(self, *, is_done: bool) -> None:
        protocol = self._protocol
        who = (protocol.incarnation, protocol.timeline)
        self.driver.tell(Leave(incarnation=who[0], timeline=who[1], is_done=is_done))

    def _send_log(self) -> None:
        numbers = self._logbook.take(self._clock.now_s())
        if numbers:
            self.ask(Log(incarnation=0, timeline=0, numbers=numbers))
