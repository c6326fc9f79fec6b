"""Which hosts a job has, which processes are to be there, and which are.

::

    join      a host comes with its token: it is granted an id, once; it is there, and
              has processes, once it has reported: then all that it must have is there
    start     a process is wished for at a host; it runs when the host says so
    report    a host tells of its processes: what has changed, and what is to be there
    look      a host that is silent for one time-out is lost, and all its processes with it;
              time in which nobody looked (the launcher stood still) is nobody's silence

A lost host is told so when it is heard again: it ends what it has, and may join anew under
another token. A process that is to be killed at a host that does not answer counts as ended
a little later: incarnations keep apart what it still does from what follows it.

Pure: time is an argument.
"""

import signal
from collections.abc import Iterable
from typing import NamedTuple, final

from msgspec import structs

from paceline.ids import COORDINATOR, RoleKind, host_id, role_kind
from paceline.launch.hosts.placement import Capacity, HostRoom, place
from paceline.messages.hosts import (
    HostExit,
    HostOrders,
    HostProcess,
    HostReport,
    HostWish,
    JoinHost,
)
from paceline.watch.summary import Ending, Verdict, tell_ending

KILL_S = 4.0  # less than whoever ends processes waits for killed ones
ANSWERS_S = 2.0  # a host that was heard within does answer
FIRST_REPORT_S = 120.0  # it compares what it has, and writes where checkpoints lie
STALL_S = 1.0  # between two looks, which are a quarter of a second apart

NEVER_RAN = -1  # in place of a pid: no process of any member

_ORDER: dict[HostWish, int] = {"run": 0, "leave": 1, "end": 2, "kill": 3}


class ProcessStarted(NamedTuple):
    """A process that was wished for runs."""

    number: int
    pid: int


class ProcessEnded(NamedTuple):
    """A process that was wished for has ended; with its host, if ``host`` names one."""

    number: int
    exit: HostExit
    host: str = ""


class HostGone(NamedTuple):
    """A host is not there any more, with the roles that it had; ``reason`` is in words."""

    host: str
    name: str
    address: str
    roles: tuple[str, ...]
    reason: str


Change = ProcessStarted | ProcessEnded | HostGone


@final
class Host:
    """A machine of the job."""

    def __init__(self, message: JoinHost, index: int, now: float) -> None:
        self.id = host_id(index)
        self.token, self.name = message.token, message.name
        self.address, self.cores = message.address, message.cores
        self.room = HostRoom(message.cores, Capacity(message.servers, message.trainers))
        self.heard_s = now
        self.is_there = False  # it has reported
        self.is_told = False  # that the job is over; and has told its logs


@final
class _Wished:
    """A process that is to be at a host."""

    def __init__(self, role: str, host: str) -> None:
        self.role, self.host = role, host
        self.wish: HostWish = "run"
        self.wish_s = 0.0  # since when
        self.pid: int | None = None
        self.has_ended = False


@final
class Roster:
    """All hosts but the launcher's own, which comes first and is never lost."""

    def __init__(
        self,
        own: JoinHost,
        timeout_s: float,
        now: float,
        trainers_per_host: int | None = None,
    ) -> None:
        """Nobody has joined; ``timeout_s``: silence after which a host is lost.

        ``trainers_per_host``: what one takes at most that does not say how many it takes.
        """
        self._timeout_s, self._trainers_per_host = timeout_s, trainers_per_host
        self._own = Host(own, 0, now)
        self._own.is_there = True
        self._looked_s = now
        self._hosts = {self._own.id: self._own}
        self._gone: dict[str, str] = {}  # {token of a host that is gone: why}
        self._next_host, self._next_number = 1, 1
        self._wished: dict[int, _Wished] = {}
        self._at: dict[str, str] = {COORDINATOR: self._own.id}  # {role: host}
        self._left: dict[str, set[str]] = {}  # {role: hosts where others did not reach it}
        self._away: set[str] = set()  # trainers that have ended, and hold no room
        self.verdict: Verdict | None = None  # of a run that is over

    @property
    def own(self) -> Host:
        """The launcher's machine."""
        return self._own

    @property
    def hosts(self) -> list[Host]:
        """All that are there."""
        return [host for host in self._hosts.values() if host.is_there]

    def knows(self, token: str) -> bool:
        """Whether a host has joined with this token, and is not lost."""
        return any(host.token == token for host in self._others())

    def join(self, message: JoinHost, now: float) -> Host | str:
        """Grant a host its id; why not, if its token is that of one that is gone."""
        if message.token in self._gone:
            return self._gone[message.token]
        for host in self._others():
            if host.token == message.token:
                host.heard_s = now
                return host
        if message.trainers is None:
            message = structs.replace(message, trainers=self._trainers_per_host)
        host = Host(message, self._next_host, now)
        self._next_host += 1
        self._hosts[host.id] = host
        return host

    @property
    def rooms(self) -> dict[str, HostRoom]:
        """What all hosts have for roles."""
        return {host.id: host.room for host in self.hosts}

    @staticmethod
    def takes(host: Host, trainers: int) -> None:
        """A host takes so many trainers from now on, of those who come there as guests."""
        host.room = HostRoom(host.cores, host.room.capacity._replace(trainers=trainers))

    def num_placed(self, kind: RoleKind) -> int:
        """How many roles of a kind have a place."""
        return sum(role_kind(role) == kind for role in self._at.keys() - self._away)

    def place(self, role: str, *, is_elsewhere: bool = False) -> str | None:
        """The host where a role is to run from now on; None: none has room.

        ``is_elsewhere``: not where it was; it comes back there when no other one has room,
        or it has been so everywhere. A server that has ended keeps its room,
        a trainer does not: it may have left.
        """
        left = self._left.setdefault(role, set())
        if is_elsewhere and role in self._at:
            left.add(self._at.pop(role))
        away = self._away - {role}
        at = {other: host for other, host in self._at.items() if other not in away}
        rooms = {host: room for host, room in self.rooms.items() if host not in left}
        host = place(role, at, rooms) if rooms else None
        if host is None and left:
            left.clear()
            host = place(role, at, self.rooms)
        if host is not None:
            self._at[role] = host
            self._away.discard(role)
        return host

    def start(self, role: str, host: str) -> int:
        """Wish for a process at another host; its number."""
        assert host in self._hosts, f"{host} is lost"
        number, self._next_number = self._next_number, self._next_number + 1
        self._wished[number] = _Wished(role, host)
        return number

    def turn(self, number: int, wish: HostWish, now: float) -> None:
        """Wish otherwise for a process; never for less than before."""
        one = self._wished.get(number)
        if one is not None and _ORDER[wish] > _ORDER[one.wish]:
            one.wish, one.wish_s = wish, now

    def forget(self, number: int) -> None:
        """A process has ended, and whoever wished for it knows."""
        one = self._wished.pop(number, None)
        if one is not None and role_kind(one.role) == "trainer":
            self._away.add(one.role)

    def reporting(self, report: HostReport, now: float) -> Host | None:
        """Whose report it is, who is heard by it; None: of none that has joined."""
        host = self._hosts.get(report.host)
        if host is None or host.token != report.token or host is self._own:
            return None
        host.heard_s = now
        return host

    def report(
        self, report: HostReport, now: float
    ) -> tuple[list[Change], HostOrders | str]:
        """A host has told of its processes; what is to be there, or why it is lost."""
        host = self.reporting(report, now)
        if host is None:
            return [], self._gone.get(report.token, "no host has joined with this token")
        if report.leaves:
            return self._lose(host, report.leaves), report.leaves
        host.is_there = True
        if report.trainers is not None:
            self.takes(host, report.trainers)
        changes: list[Change] = []
        for number, one in self._at_host(host):
            pid, ended = report.running.get(number), report.ended.get(number)
            if one.pid is None and (pid is not None or ended is not None):
                one.pid = pid if pid is not None else ended.pid if ended else None
                assert one.pid is not None
                changes.append(ProcessStarted(number, one.pid))
            if ended is not None and not one.has_ended:
                one.has_ended = True
                changes.append(ProcessEnded(number, ended))
        host.is_told = self.verdict is not None and not report.has_more
        if self.verdict is not None:
            return changes, _over(self.verdict)
        processes = {n: HostProcess(p.role, p.wish) for n, p in self._at_host(host)}
        return changes, HostOrders(processes=processes)

    def look(self, now: float) -> list[Change]:
        """Hosts that are silent for too long; killed processes that count as ended."""
        changes: list[Change] = []
        stalled_s, self._looked_s = now - self._looked_s, now
        for host in self._others():
            if stalled_s >= STALL_S:
                host.heard_s = min(host.heard_s + stalled_s, now)
            silent_s = self._timeout_s if host.is_there else FIRST_REPORT_S
            if now - host.heard_s >= silent_s:
                changes += self._lose(host, f"it has been silent for {silent_s:g} s")
                continue
            is_answering = now - host.heard_s < ANSWERS_S
            for number, one in self._at_host(host):
                is_due = one.wish == "kill" and now - one.wish_s >= KILL_S
                if is_due and not is_answering and not one.has_ended:
                    changes += self._end(number, one, host.id)
        return changes

    def untold(self) -> list[Host]:
        """Hosts that do not know yet that the job is over."""
        return [host for host in self._others() if not host.is_told]

    def _others(self) -> list[Host]:
        return [host for host in self._hosts.values() if host is not self._own]

    def _at_host(self, host: Host) -> Iterable[tuple[int, _Wished]]:
        return [(n, one) for n, one in self._wished.items() if one.host == host.id]

    def _lose(self, host: Host, reason: str) -> list[Change]:
        del self._hosts[host.id]
        self._gone[host.token] = f"{host.id} is lost to the job: {reason}"
        self._at = {role: at for role, at in self._at.items() if at != host.id}
        ended: list[Change] = []
        roles = []
        for number, one in self._at_host(host):
            if not one.has_ended:
                roles.append(one.role)
                ended += self._end(number, one, host.id)
        gone = HostGone(host.id, host.name, host.address, tuple(roles), reason)
        return [gone, *ended]

    def _end(self, number: int, one: _Wished, host: str) -> list[Change]:
        one.has_ended = True
        changes: list[Change] = []
        if one.pid is None:
            one.pid = NEVER_RAN
            changes.append(ProcessStarted(number, one.pid))
        exit_ = HostExit(one.pid, -signal.SIGKILL)
        return [*changes, ProcessEnded(number, exit_, host)]


def _over(verdict: Verdict) -> HostOrders:
    told = tell_ending(verdict.ending.value, verdict.reason)
    return HostOrders(
        processes={},
        is_over=True,
        goes_on=verdict.ending is Ending.INTERRUPTED,
        status=verdict.exit_code,
        ending=told if verdict.exit_code else "",
    )
