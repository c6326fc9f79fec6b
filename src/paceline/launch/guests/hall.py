"""Where processes that torchrun has started come to their host, to be trainers.

::

    a guest comes      it waits, until a role is to start on this machine
    it gets a role     it is that trainer until it parts, or is dead
    its parent dies    nobody looks after it any more: it is told to leave, then killed
    nobody is left     neither guest nor parent here, nor another machine, for a while:
                       `alone` is called
    this one fails     guests lose it, and leave; `alone` is called
    the job has ended  whoever comes, or has done its work, is told how
    another is meant   who comes is refused, and keeps nobody here

What a guest says as it parts is its exit status. Who is dead and has said nothing was
killed, unless it was told to leave, and torchrun has lost its patience. A guest that has
parted is none any more: torchrun starts another process instead.

Waits: a thread, for guests, their ends and their parents' ends; `wait_left`.
"""

import os
import selectors
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import final

from paceline.errors import PREEMPTED_EXIT_CODE, FrameRefused, JobFailed, TransportError
from paceline.launch.guests.guest import GuestProcess, is_readable
from paceline.launch.guests.talk import (
    FROM_GUEST,
    Arrive,
    FromGuest,
    GuestPlace,
    JobOver,
    Parted,
    ToldToLeave,
)
from paceline.timing import Clock, Deadline
from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.streams import FrameChannel, peer_process

LOOK_EVERY_S = 0.25
TOO_MANY_S = 0.1  # before one is let in again, where that has failed
FIRST_S = 60.0  # for the first to come
TALK_S = 2.0  # a guest that begins a message ends it; it is a few bytes
ORPHAN_S = 10.0  # for guests without a parent, to leave by themselves
CLOSE_S = 30.0  # a look, and whatever guests that hang cost it
MOST_GUESTS = 1024  # connections at once
_FAILS = JobOver("the job ends before its work is done", 1)


@final
class _Guest:
    """Somebody at the door."""

    def __init__(self, pid: int, pidfd: int, channel: FrameChannel[FromGuest]) -> None:
        self.pid, self.pidfd, self.channel = pid, pidfd, channel
        self.parent = 0  # until it has said so
        self.process: GuestProcess | None = None  # with a role
        self.greeting = ""  # said with its role
        self.is_told = False  # to leave
        self.has_parted = False
        self.is_deaf = False  # its connection is closed

    def say(self, message: GuestPlace | JobOver) -> bool:
        """Whether it was sent."""
        if self.is_deaf:
            return False
        try:
            self.channel.send(message)
        except TransportError:
            return False
        return True


@final
class GuestHall:
    """The guests of one machine in one job, and the processes that have started them."""

    def __init__(
        self,
        door: Path,
        clock: Clock,
        alone_after_s: float,
        alone: Callable[[], None],
        refuses: Callable[[Arrive], str] = lambda _: "",
        greets: Callable[[Arrive], str] = lambda _: "",
    ) -> None:
        """Listen at ``door``, in a private folder; ``alone`` is called once, by a thread.

        ``refuses`` says why one that comes is none for this job; nothing: it is one, and
        ``greets`` is said to it with its role, if it is something.

        Raises:
            OSError: nothing can listen there.
        """
        self._door, self._clock = door, clock
        self._alone_after_s, self._alone = alone_after_s, alone
        self._refuses, self._greets = refuses, greets
        self._lock = threading.Lock()  # guards the next four
        self._guests: dict[int, _Guest] = {}  # by pid
        self._parents: dict[int, int] = {}  # {pid: pidfd}
        self._orphans: dict[int, Deadline] = {}  # {guest: when it is killed}
        self._over: JobOver | None = None
        self._lonely: Deadline | None = Deadline(clock, FIRST_S)
        self.others = 0  # other machines of the job, where this one leads it
        self._closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(door))
        self._listener.listen(MOST_GUESTS)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._come)
        self._thread = threading.Thread(target=self._run, name="guests", daemon=True)
        self._thread.start()

    @property
    def trainers(self) -> int:
        """How many there can be: guests with a role, and those who wait for one."""
        with self._lock:
            return sum(guest.parent > 0 and self._counts(guest) for guest in self._all())

    def start(self, role: str, variables: Mapping[str, str]) -> GuestProcess | None:
        """Let the guest that has waited longest be a trainer; None: nobody waits."""
        with self._lock:
            for guest in self._all():
                if guest.parent == 0 or guest.process is not None or guest.has_parted:
                    continue
                if not guest.is_deaf and guest.say(
                    GuestPlace(dict(variables), guest.greeting)
                ):
                    fail = partial(self._fail, guest)
                    guest.process = GuestProcess(role, guest.pid, guest.pidfd, fail)
                    return guest.process
        return None

    def end(self, over: JobOver) -> None:
        """The job has ended: all who are there are told so, and all who come."""
        with self._lock:
            self._over = over
            for guest in self._all():
                if guest.has_parted or (guest.parent and guest.process is None):
                    guest.say(over)

    def wait_left(self) -> None:
        """Wait until all who have started guests are gone, as they will be."""
        while not self._closed.wait(LOOK_EVERY_S):
            with self._lock:
                if not self._parents and not self._guests:
                    return

    def close(self) -> None:
        """Nobody comes any more.

        Raises:
            JobFailed: the thread that listens does not end within `CLOSE_S`.
        """
        self._closed.set()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise JobFailed(
                f"the thread that listens for torchrun's processes at {self._door} has not "
                f"ended within {CLOSE_S:g} s: it is held up by one of them, or by whoever "
                "ends this machine's part"
            )
        self._selector.close()
        self._listener.close()
        for guest in self._all():
            guest.channel.close()
        for pidfd in (*self._parents.values(), *(one.pidfd for one in self._all())):
            os.close(pidfd)

    def _fail(self, guest: _Guest) -> None:
        with self._lock:
            if not guest.is_deaf:
                guest.say(_FAILS)

    def _all(self) -> list[_Guest]:
        return list(self._guests.values())

    def _counts(self, guest: _Guest) -> bool:
        has_ended = guest.process is not None and guest.process.has_ended
        return not (guest.has_parted or has_ended)

    def _run(self) -> None:
        try:
            self._serve()
        except Exception:  # noqa: BLE001  (whatever it is: nobody may wait for this thread)
            traceback.print_exc()
            self._fall()

    def _fall(self) -> None:
        """Nobody is looked after any more: guests notice, and who watches them does."""
        with self._lock:
            for guest in self._all():
                if guest.process is not None:
                    guest.process.ended(-signal.SIGKILL)
                guest.is_deaf = True
                guest.channel.close()
        self._closed.set()
        self._alone()

    def _serve(self) -> None:
        while not self._closed.is_set():
            events = self._selector.select(LOOK_EVERY_S)
            with self._lock:
                for key, _ in events:
                    key.data()
                self._look()
            if self._lonely is not None and self._lonely.is_over():
                self._lonely = None
                self._alone()

    def _look(self) -> None:
        """Time has passed: for orphans, and for who is alone."""
        for pid, deadline in list(self._orphans.items()):
            if pid not in self._guests:
                del self._orphans[pid]
            elif deadline.is_over():
                _signal(self._guests[pid].pidfd, signal.SIGKILL)
        guests = any(guest.parent for guest in self._all())
        is_here = self._parents or guests or self.others or self._over is not None
        if is_here and self._lonely is not None:
            self._lonely = Deadline(self._clock, self._alone_after_s)

    def _come(self) -> None:
        try:
            end, _ = self._listener.accept()
        except OSError:  # whoever came has hung up; or there are too many open files
            self._closed.wait(TOO_MANY_S)
            return
        pid, user = peer_process(end)
        end.settimeout(TALK_S)
        if user != os.geteuid() or pid in self._guests or len(self._guests) >= MOST_GUESTS:
            end.close()
            return
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # it is dead by now
            end.close()
            return
        channel = FrameChannel(end, FROM_GUEST, CONTROL_LIMITS, f"process {pid}")
        guest = self._guests[pid] = _Guest(pid, pidfd, channel)
        read = selectors.EVENT_READ
        self._selector.register(channel, read, lambda: self._hear(guest))
        self._selector.register(pidfd, read, lambda: self._end(guest))

    def _hear(self, guest: _Guest) -> None:
        if guest.is_deaf:
            return
        try:
            message = guest.channel.receive().message
        except (TransportError, FrameRefused):
            self._deafen(guest)  # what has become of the process, its own end says
            return
        if isinstance(message, Arrive):
            why_not = self._refuses(message)
            if why_not:
                guest.say(JobOver(why_not, 1))
            else:
                guest.greeting = self._greets(message)
                self._arrived(guest, message.parent)
        elif isinstance(message, ToldToLeave):
            guest.is_told = True
        elif isinstance(message, Parted):
            guest.has_parted = True
            if guest.process is not None:
                guest.process.ended(message.status)
            if self._over is not None:
                guest.say(self._over)

    def _arrived(self, guest: _Guest, parent: int) -> None:
        guest.parent = parent
        if parent not in self._parents:
            try:
                pidfd = self._parents[parent] = os.pidfd_open(parent)
            except OSError:
                self._orphan(guest)
            else:
                over = lambda: self._parent_ended(parent)  # noqa: E731
                self._selector.register(pidfd, selectors.EVENT_READ, over)
        if self._over is not None:
            guest.say(self._over)

    def _end(self, guest: _Guest) -> None:
        """Its process is dead; what it had said before is heard first."""
        while not guest.is_deaf and is_readable(guest.channel):
            self._hear(guest)
        if guest.process is not None:
            killed = -signal.SIGKILL
            guest.process.ended(PREEMPTED_EXIT_CODE if guest.is_told else killed)
        self._deafen(guest)
        self._selector.unregister(guest.pidfd)
        os.close(guest.pidfd)
        del self._guests[guest.pid]

    def _deafen(self, guest: _Guest) -> None:
        if not guest.is_deaf:
            guest.is_deaf = True
            self._selector.unregister(guest.channel)
            guest.channel.close()

    def _parent_ended(self, parent: int) -> None:
        pidfd = self._parents.pop(parent)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        for guest in self._all():
            if guest.parent == parent:
                self._orphan(guest)

    def _orphan(self, guest: _Guest) -> None:
        _signal(guest.pidfd, signal.SIGTERM)
        self._orphans[guest.pid] = Deadline(self._clock, ORPHAN_S)


def _signal(pidfd: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
