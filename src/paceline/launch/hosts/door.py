"""Where hosts come to the launcher: it hears their reports, and says what is to be there.

::

    JoinHost     -> the launcher dials the host back -> granted an id, and told the job
    HostReport   -> `roster` -> HostOrders; what has changed wakes the launcher
    AskPlace     -> where the coordinator is, for who has no folder; AskLogs, AskLog

Everything of other hosts' processes comes here: their ends, their logs, what their scripts
have left of how they failed; it lies in the job folder like that of the launcher's own.

Waits: a thread for each host that comes, to dial it back; one that looks for lost hosts.
"""

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, final

import msgspec
from msgspec import structs

from paceline.errors import ForeignPeer, JobFailed, TransportError, UsageError
from paceline.ids import COORDINATOR, role_kind
from paceline.launch.guests import GuestHall
from paceline.launch.hosts.hosted import HostedChild
from paceline.launch.hosts.logs import KeptLogs
from paceline.launch.hosts.placement import WaitingRoles, no_room
from paceline.launch.hosts.roster import (
    Change,
    Host,
    HostGone,
    ProcessEnded,
    ProcessStarted,
    Roster,
)
from paceline.launch.job import JobDir
from paceline.launch.processes import Watched
from paceline.launch.supervise import NoRoom, Start
from paceline.messages.hosts import (
    AskLog,
    AskLogs,
    AskPlace,
    HostExit,
    HostJoined,
    HostOrders,
    HostReport,
    HostWish,
    JobPlace,
    JoinHost,
    LogSizes,
)
from paceline.messages.shared import Message, Refusal
from paceline.timing import Clock, Deadline
from paceline.transport.connection import Connection
from paceline.transport.frames import ByteArray
from paceline.transport.service import Peer, Reply
from paceline.watch.summary import Ending, Verdict

LOOK_EVERY_S = 0.25
TELL_S = 3.0  # how long hosts may take to hear that the job is over
MISSING_EVERY_S = 30.0  # that hosts are waited for is said
NUM_DIALS = 32  # at once

Dial = Callable[[str, str], Connection]
_LOST = Verdict(Ending.FAILED, "its launcher has ended before the job")


class Wanted(NamedTuple):
    """With how many hosts and trainers a job begins, and how long it waits for them.

    Its own host counts. ``check`` raises once waiting is in vain. With ``guests`` trainers
    come by themselves, there and at all hosts: there is room for those who are there.
    """

    hosts: int
    within_s: float
    check: Callable[[], None] = lambda: None
    trainers: int = 1
    guests: GuestHall | None = None


@final
class HostsDoor:
    """The service behind the launcher's listener."""

    def __init__(
        self,
        roster: Roster,
        wanted: Wanted,
        job: JobDir,
        joined: Callable[[Host], HostJoined],
        dial: Dial,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """Nobody has come; ``dial`` connects to a host, by its address and token."""
        self._roster, self._job, self._joined = roster, job, joined
        self._wanted, self._come_by = wanted, Deadline(clock, wanted.within_s)
        self._missing_by = Deadline(clock, MISSING_EVERY_S)
        self._is_complete = False  # once as many hosts were there as are wanted
        self._has_trained = False  # once as many trainers had a place as it begins with
        self._dial, self._say, self._clock = dial, say, clock
        self._logs = KeptLogs(job)
        self._lock = threading.Lock()  # guards the roster, and the next six
        self._children: dict[int, HostedChild] = {}
        self._starting: dict[str, int] = {}  # {role: number}
        self._waiting = WaitingRoles()
        self._num_unsent = 0  # orders
        self._readers: set[int] = set()  # connections of who reads logs
        self._are_logs_whole = False
        self._dials = threading.BoundedSemaphore(NUM_DIALS)
        self._over = threading.Event()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(
            target=self._watch, name="paceline-hosts", daemon=True
        )
        self._thread.start()

    def start(
        self, wanted: Start, at_home: Callable[[Start], Watched | NoRoom | None]
    ) -> Watched | NoRoom | None:
        """Start a role's process where it belongs; None: not yet, ask again.

        Raises:
            JobFailed: not as many hosts as are wanted have come in time, or can come; or a
                role that the job needs has found no room for as long.
        """
        role = wanted.role
        with self._lock:
            if role != COORDINATOR and not self._has_begun():
                return None
            number = self._starting.get(role)
            if number is None:
                if self._wanted.guests is not None:
                    self._roster.takes(self._roster.own, self._wanted.guests.trainers)
                host = self._roster.place(role, is_elsewhere=wanted.is_elsewhere)
                self._has_trained |= self._num_trainers() >= self._wanted.trainers
                if host is None:
                    return self._without_room(role)
                self._waiting.found(role)
                if host != self._roster.own.id:
                    self._starting[role] = self._roster.start(role, host)
                    return None
            elif (child := self._children.get(number)) is not None:
                del self._starting[role]
                return child
            else:
                return None
        if role != COORDINATOR:
            self._logs.begin(self._roster.own, role)
        return at_home(wanted)

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """See `Service.received`."""
        del buffers
        if isinstance(message, JoinHost):
            if not self._dials.acquire(blocking=False):
                reply(Refusal(kind="not_ready", text=f"{NUM_DIALS} hosts are dialled back"))
                return
            threading.Thread(
                target=self._let_in, args=(message, reply), daemon=True
            ).start()
            return
        if isinstance(message, HostReport):
            reply(self._heard(message))
            with self._lock:
                self._num_unsent -= 1
                self._changed.notify_all()
            return
        assert isinstance(message, AskPlace | AskLogs | AskLog)
        reply(self._shown(peer, message))

    def disconnected(self, peer: Peer) -> None:
        """See `Service.disconnected`: a host may come back; silence alone loses it."""
        with self._lock:
            self._readers.discard(peer.connection)
            self._changed.notify_all()

    def close(self, verdict: Verdict = _LOST) -> None:
        """The run is over: tell all hosts, then who reads logs, for `TELL_S` each; once."""
        if self._over.is_set():
            return
        with self._lock:
            self._roster.verdict = verdict
            # Whoever closes us hangs up next: a host that is told must have been sent it.
            self._wait_until(lambda: not (self._roster.untold() or self._num_unsent))
            self._are_logs_whole = True
            self._wait_until(lambda: not self._readers)
            untold = [f"{host.id} ({host.name})" for host in self._roster.untold()]
        self._over.set()
        self._thread.join()
        if untold:
            self._say(
                f"{', '.join(untold)} cannot be told that the job is over: what runs there "
                "ends by itself once it has heard nothing for its --orphan-after"
            )

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = Deadline(self._clock, TELL_S)
        while not is_so() and not deadline.is_over():
            self._changed.wait(deadline.remaining_s())

    def _heard(self, report: HostReport) -> HostOrders | Refusal:
        with self._lock:
            host = self._roster.reporting(report, self._clock.now_s())
        # Before it is known that a process has ended: its last words are there then.
        logs = {} if host is None else self._logs.take(host, report.logs)
        with self._lock:
            changes, orders = self._roster.report(report, self._clock.now_s())
            said = self._take(changes)
            self._num_unsent += 1
        for line in said:
            self._say(line)
        if isinstance(orders, str):
            return Refusal(kind="invalid", text=orders)
        return structs.replace(orders, logs=logs)

    def _shown(self, peer: Peer, message: AskPlace | AskLogs | AskLog) -> Message:
        """What is told to who has no folder of the job."""
        if isinstance(message, AskPlace):
            job = self._joined(self._roster.own)
            return JobPlace(run=job.config.run, coordinator=job.coordinator)
        if isinstance(message, AskLog):
            return self._logs.piece(message)
        with self._lock:
            self._readers.add(peer.connection)
            is_over = self._are_logs_whole
        return LogSizes(sizes=self._logs.sizes(), is_over=is_over)

    def no_room(self) -> str:
        """Which roles no machine has room for, since when and why; empty: there is none."""
        with self._lock:
            return self._waiting.standing(self._roster.rooms, self._clock.now_s())

    def _has_begun(self) -> bool:
        """Whether all hosts that the job is to begin with have come."""
        count = len(self._roster.hosts)
        self._is_complete = self._is_complete or count >= self._wanted.hosts
        if not self._is_complete:
            self._wanted.check()
        if not self._is_complete and self._come_by.is_over():
            raise JobFailed(
                f"the job was to begin with {self._wanted.hosts} machines (--await-hosts), "
                f"and {count} are there after {self._wanted.within_s:g} s (--first-batch)"
            )
        return self._is_complete

    def _missing(self) -> list[str]:
        """What is said, now and then, while hosts are waited for."""
        missing = self._wanted.hosts - len(self._roster.hosts)
        if self._is_complete or missing <= 0 or not self._missing_by.is_over():
            return []
        self._missing_by = Deadline(self._clock, MISSING_EVERY_S)
        hosts, within_s = self._wanted.hosts, self._wanted.within_s
        waited_s = within_s - self._come_by.remaining_s()
        return [
            f"waiting for {waited_s:.0f} s for {missing} more of the {hosts} machines that "
            f"the job begins with (for {within_s:g} s at most: --first-batch)"
        ]

    def _num_trainers(self) -> int:
        return self._roster.num_placed("trainer")

    def _without_room(self, role: str) -> NoRoom:
        if self._wanted.guests is not None and role_kind(role) == "trainer":
            return NoRoom(role)  # nobody else is to be started for it
        waited_s = self._waiting.note(role, self._clock.now_s())
        least = 1 if self._has_trained else self._wanted.trainers
        is_enough = self._num_trainers() >= least
        is_needed = role_kind(role) == "server" or not is_enough
        if is_needed and waited_s >= self._wanted.within_s:
            raise JobFailed(
                f"{role} has waited for {self._wanted.within_s:g} s (--first-batch): "
                f"{no_room(self._roster.rooms)}"
            )
        return NoRoom(role)

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            with self._lock:
                now = self._clock.now_s()
                said = self._take(self._roster.look(now))
                if self._wanted.guests is not None:
                    self._wanted.guests.others = len(self._roster.hosts) - 1
                said += self._missing()
                if (waiting := self._waiting.tell(self._roster.rooms, now)) is not None:
                    said.append(waiting)
                self._changed.notify_all()
            for line in said:
                self._say(line)

    def _let_in(self, message: JoinHost, reply: Reply) -> None:
        """Dial a host back, and let it in if it can be reached."""
        try:
            refused = self._unreachable(message)
        finally:
            self._dials.release()
        if refused is not None:
            self._say(refused.text)
            reply(refused)
            return
        with self._lock:
            is_known = self._roster.knows(message.token)
            host = self._roster.join(message, self._clock.now_s())
            if isinstance(host, str):
                reply(Refusal(kind="invalid", text=host))
                return
            joined = self._joined(host)
        if not is_known:
            told = f"{host.name}, {host.address}, {host.cores} cores"
            most = f", {bound}" if (bound := str(host.room.capacity)) else ""
            self._say(f"{host.id} has joined: {told}{most}")
        reply(joined)

    def _unreachable(self, message: JoinHost) -> Refusal | None:
        try:
            self._dial(message.address, message.token).close()
        except (TransportError, UsageError) as error:
            other = "who answers there is another one, or has an older secret: "
            why = f"{other if isinstance(error, ForeignPeer) else ''}{error}"
            told = (
                f"the machine {message.name} asks to join and says that it is reached at "
                f"{message.address}, and from here ({self._roster.own.address}) it is not: "
                f"{why}; name an address of it that all machines reach, with --advertise"
            )
            return Refusal(kind="mismatch", text=told)
        return None

    def count_here(self, trainers: int) -> int:
        """How many of all trainers are to be on the launcher's own machine, by cores."""
        with self._lock:
            hosts = [
                host for host in self._roster.hosts if host.room.capacity.trainers != 0
            ]
            cores = sum(host.cores for host in hosts) or 1
            return max(1, math.ceil(trainers * self._roster.own.cores / cores))

    def _take(self, changes: Sequence[Change]) -> list[str]:
        """Let the launcher's thread see what has changed; what is to be said."""
        said: list[str] = []
        for change in changes:
            if isinstance(change, HostGone):
                roles = f"; with it {', '.join(change.roles)}" if change.roles else ""
                who = f"{change.host} ({change.name}, {change.address})"
                said.append(f"{who} is lost: {change.reason}{roles}")
            elif isinstance(change, ProcessStarted):
                role = next(r for r, n in self._starting.items() if n == change.number)
                self._children[change.number] = self._child(role, change)
            else:
                self._end(change)
        return said

    def _child(self, role: str, started: ProcessStarted) -> HostedChild:
        number = started.number

        def turn(wish: HostWish) -> None:
            with self._lock:
                self._roster.turn(number, wish, self._clock.now_s())

        def forget() -> None:
            with self._lock:
                self._roster.forget(number)
                self._children.pop(number, None)

        return HostedChild(role, started.pid, turn, forget)

    def _end(self, ended: ProcessEnded) -> None:
        child = self._children[ended.number]
        self._keep(child.role, ended.exit)
        child.ended(ended)

    def _keep(self, role: str, ended: HostExit) -> None:
        """Put what a host tells of an end where the launcher's own processes leave it."""
        if ended.failure:
            with suppress(OSError):  # a full disk: it is told without
                self._job.failure(role).write_bytes(ended.failure)
