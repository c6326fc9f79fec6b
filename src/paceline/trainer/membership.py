"""One process as a member of the job: it joins, shows that it lives, and leaves.

Whatever the user's script does, this is what the job has of it: acts are driven here, one
loop is open at a time, the last numbers are sent before the end.

A loop is left by ``break``, or by an exception, and nothing tells which. So what was
stepped is pushed and the rest handed back at once, but the loop has ended only when the
script goes on, with its next call::

    any call, nothing being handled   the script goes on: the loop is over for this trainer
    any call in an except block       answered; the loop is not over
    any call of an atexit function    the same, if the script has failed
    close, the end of the process     what was stepped is in a cut; the loop is not over
    a failure on its way out          as any death: others, and a successor, go on with it

A loop that is not over goes on in others, in a successor, or in a resumed job.

Waits: for coordinator and servers, with `timeout_s` for each reply; in a thread, between
signs of life. One thread calls, and never a forked process; `leave_soon`, `abandon` and
`is_idle` may be called by any.
"""

import logging
import math
import os
from typing import final

from paceline.config import Pace
from paceline.errors import PacelineError, TransportError, UsageError
from paceline.ids import TaskKey
from paceline.machine import machine_name
from paceline.messages.meeting import AskPeers
from paceline.messages.shared import Message
from paceline.messages.trainer import Leave, Log
from paceline.timing import Clock, Repeating
from paceline.trainer.acts import Act
from paceline.trainer.client import LOOK_EVERY_S, Courier, Driver
from paceline.trainer.engine import Calls, TrainerEngine
from paceline.trainer.peers import Collectives, PeerEvents, PeerLink, PeerWires
from paceline.trainer.protocol import LOST_BEFORE_BREAK, TrainerProtocol

PATIENCE = 6  # time-outs for which the coordinator may be away
CLOSE_PATIENCE_S = 5.0  # the same, for who leaves: without it, the trainer is lost
SEND_EVERY_S = 0.05  # numbers of the script's
TELL_EVERY_S = 10.0  # how long batches take
DOOR_EVERY_S = 2.0  # where the door is: a coordinator that has restarted knows it again
_WHO_IS_THERE = AskPeers(incarnation=0, timeline=0)  # any question makes one join

_log = logging.getLogger("paceline.trainer")

Had = tuple[int, tuple[TaskKey, int] | None, bool]
"""How many batches of its loop, the last of them, and whether a loop has ended."""


@final
class Membership:
    """A process that has joined."""

    def __init__(
        self,
        trainer: str,
        courier: Courier,
        clock: Clock,
        timeout_s: float,
        peers: PeerWires | None = None,
    ) -> None:
        """Join; returns when all servers of the job are there.

        A reply that takes longer than ``timeout_s`` is asked for again.

        Raises:
            JobFailed: there is no coordinator.
        """
        self._clock, self._timeout_s = clock, timeout_s
        self._protocol = TrainerProtocol(
            trainer, os.getpid(), machine_name(), patience_s=PATIENCE * timeout_s
        )
        self.driver = Driver(self._protocol, courier, clock, timeout_s)
        self.carrier = TrainerEngine(self._protocol, self.driver)
        self.calls = Calls(
            self._protocol,
            self._send_log,
            lambda: self._end_loop(goes_on=True),
            lambda: self._protocol.behind.has_left,
        )
        self._logbook = Logbook()
        self.link = PeerLink(self._protocol, courier, clock, timeout_s, peers)
        self.events = PeerEvents(
            self.link, self.driver, self.calls, clock, lambda: self.ask(_WHO_IS_THERE)
        )
        self.collectives = Collectives(self.link, self.carrier, self.calls, clock)
        self._teller = Repeating("trainer-waits", LOOK_EVERY_S, self.driver.waits.look)
        self._teller.start()
        try:
            self.carrier.run(self._protocol.join())
        except BaseException:
            self._teller.stop(timeout_s)
            self.driver.close()
            raise
        joined = self._protocol.joined
        assert joined is not None
        self.pace: Pace = joined.pace
        self.num_trainers = joined.trainers  # when it came
        heartbeat = Heartbeat(self.driver, clock, joined.beat_s, self.link)
        every_s = joined.beat_s / 2
        self._heartbeat = Repeating("trainer-heartbeat", every_s, heartbeat.look)
        self._heartbeat.start()

    def ask(self, message: Message) -> Message:
        """Ask the coordinator, as who the trainer is now.

        Raises:
            UsageError: the session is closed.
            Preempted: the script must begin again.
        """
        self.calls.check_open()
        return self.carrier.ask(message)

    def log(self, numbers: dict[str, object]) -> None:
        """Note numbers; they are sent now and then, the last of each name.

        Raises:
            UsageError: a value is no number.
        """
        self.calls.check_open()
        if self._logbook.add(numbers, self._clock.now_s()):
            self._send_log()

    def close(self) -> None:
        """Leave the job; see `Session.close`."""
        calls = self.calls
        if not calls.is_here():
            return
        asking = self._protocol.asking
        asking.patience_s = min(asking.patience_s, CLOSE_PATIENCE_S)
        calls.has_failed |= is_failure(calls.giving_up())
        try:
            if calls.loop is not None:
                self.leave_soon("the session is closed")  # in the middle: no `break`
                calls.loop.close()
            if not calls.has_failed:
                self._end_loop(goes_on=False)
            self._send_log()
        except (PacelineError, ValueError):
            pass  # the job is gone, or another thread is in the loop: it will be lost
        finally:
            calls.is_closed = True
            self._heartbeat.stop(self._timeout_s)
            self._teller.stop(self._timeout_s)
            self.driver.tell_computed()
            told = self._protocol.leaving or self._protocol.must_begin_again
            self._tell_leave(is_done=told is None and not calls.has_failed)
            self.driver.close()
            self.link.close()

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

    def had(self) -> Had:
        """Batches that this process has had, the last of them within its loop; `Had`."""
        behind = self._protocol.behind
        return behind.batches, behind.last, self.calls.loops == "ended"

    def is_idle(self) -> bool:
        """Whether nothing of the job is held here: nothing is open, nothing is asked."""
        return self.calls.open_call is None and self.driver.waits.current() is None

    def _tell_leave(self, *, is_done: bool) -> None:
        protocol = self._protocol
        who = (protocol.asking.incarnation, protocol.asking.timeline)
        self.driver.tell(Leave(incarnation=who[0], timeline=who[1], is_done=is_done))

    def _end_loop(self, *, goes_on: bool) -> None:
        if self._protocol.behind.has_left:
            self.carrier.run(end_loop(self._protocol, goes_on=goes_on))

    def _send_log(self) -> None:
        numbers, ages_s = self._logbook.take(self._clock.now_s())
        if numbers:
            self.ask(Log(incarnation=0, timeline=0, numbers=numbers, ages_s=ages_s))


@final
class Heartbeat:
    """Signs of life while the user's loop computes, for one trainer.

    Silence of one time-out means death, and a step may take longer than that. So a thread
    beats over the coordinator's connection whenever the loop has not talked to it for a
    while. It reads nothing and decides nothing: a new timeline or a stop is found out by
    the loop itself.
    """

    def __init__(
        self, driver: Driver, clock: Clock, beat_s: float, link: PeerLink | None = None
    ) -> None:
        """Beat after ``beat_s`` of silence; tell of the link's door."""
        self._driver, self._link, self._clock = driver, link, clock
        self._beat_s, self._met = beat_s, driver.times_met
        self._told_s = self._told_door_s = clock.now_s()

    def beat_if_due(self) -> bool:
        """Beat if the loop has been silent; false if it has not, or nobody answered.

        Also over a new connection: behind it may be a coordinator that knows little.
        """
        met, silent_s = self._driver.times_met, self._clock.now_s() - self._driver.asked_s
        if silent_s < self._beat_s and met == self._met:
            return False
        try:
            self._driver.beat()
        except TransportError as error:
            _log.debug("no answer to a beat: %s", error)
            return False
        self._met = met
        return True

    def look(self) -> None:
        """Time has passed: beat, and tell what is to be told now and then."""
        self.beat_if_due()
        self._driver.note_spent()
        self._tell_if_due(self._clock.now_s())
        if self._link is not None:
            self._link.look()

    def _tell_if_due(self, now: float) -> None:
        if now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._driver.tell_computed()
        if self._link is not None and now - self._told_door_s >= DOOR_EVERY_S:
            self._told_door_s = now
            self._link.tell_open()


def end_loop(protocol: TrainerProtocol, *, goes_on: bool) -> Act[None]:
    """If the script has left a loop, wait for a cut that holds what was stepped in it.

    ``goes_on``: the loop is over for this trainer; else the trainer goes.
    """
    since = protocol.behind.take_left()
    if since is None or protocol.must_begin_again is not None:
        return
    if protocol.leaving is not None:
        return
    assert protocol.stage is not None, "it has left a loop"
    stage = protocol.stage.stage
    left = stage if goes_on else None

    def wait_cut() -> Act[int | None]:
        # What is asked for after a return would end a loop that all go on with.
        if protocol.joined and protocol.joined.returned > since:
            return None
        return (yield from protocol.wait_cut(-1 - stage, left))

    cut = yield from protocol.as_member(wait_cut)
    if cut is None or (protocol.joined and protocol.joined.returned > since):
        protocol.must_begin_again = f"{LOST_BEFORE_BREAK}: all have returned to a cut"
        return
    protocol.behind.went_on_from(cut)


def is_failure(error: BaseException | None) -> bool:
    """Whether a script that ends with this has failed; `SystemExit` may deny it."""
    if isinstance(error, SystemExit):
        return error.code not in {None, 0}
    return error is not None


@final
class Logbook:
    """Numbers that were logged and not sent yet."""

    def __init__(self) -> None:
        self._numbers: dict[str, float | None] = {}
        self._noted_s: dict[str, float] = {}
        self._sent_s = -math.inf

    def add(self, numbers: dict[str, object], now: float) -> bool:
        """Note numbers; whether it is time to send (`take`).

        Raises:
            UsageError: a value is no number.
        """
        read = {name: _number(name, value) for name, value in numbers.items()}
        self._numbers |= read
        self._noted_s |= dict.fromkeys(read, now)
        return now - self._sent_s >= SEND_EVERY_S

    def take(self, now: float) -> tuple[dict[str, float | None], dict[str, float]]:
        """What is to be sent now, if anything, and the seconds that it has waited."""
        waited = {name: now - noted_s for name, noted_s in self._noted_s.items()}
        taken, self._numbers, self._noted_s = self._numbers, {}, {}
        self._sent_s = now
        return taken, {name: age for name, age in waited.items() if age > 0}


def _number(name: str, value: object) -> float | None:
    """The value as a float; None if it is not finite (JSON has no word for it)."""
    item = getattr(value, "item", None)  # tensors and arrays of one element
    try:
        number = float(item() if callable(item) else value)  # type: ignore[arg-type]  # whatever cannot be one raises
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"log: {name} must be a number, got {value!r}") from None
    return number if math.isfinite(number) else None
