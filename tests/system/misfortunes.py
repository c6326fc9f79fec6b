"""What goes wrong between the machines of a job: kinds, a plan from a seed, who does it.

A fault comes when the job has counted so many records: a job that is slow, or goes back to
a cut, suffers no more and no less than a fast one. Where it strikes is drawn among the
processes and hosts that are there just then. Each is noted, with what it struck: a job
that fails is read along these notes.

Hosts that are lost stay lost: before that, another one has joined.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Literal, NamedTuple

import psutil

from paceline.ids import role_kind
from paceline.launch.supervise import RESTARTS_IN_A_ROW
from paceline.testing.machines import Machine
from tests.system.hosts import HostedJob

Kind = Literal[
    "trainer killed",
    "server killed",
    "coordinator killed",
    "agent killed",
    "host lost",
    "host hung",
    "host unheard",
    "launcher unheard",
    "way lost for a moment",
    "server out of reach",
]
POLL_S = 0.1
MOMENT_S = 1.0  # less than any time-out
BEYOND_S = 2.0  # longer than the time-out, so that whoever is silent is lost
CUT_OFF_S = 15.0  # a request is given up, a connection is not made, then the time-out
ALONE = 2  # so many faults of a kind that takes long have all the time that they take
STUCK_S = 180.0  # without a fault that is due, or a host that is needed
LAST = 0.7  # of the records: no fault is due later, but hosts take a while to join
ORPHAN_S = 15.0  # when a host that hears nothing ends
HOSTS = 3  # that are to be there beside the launcher's: one may always be lost


class Fault(NamedTuple):
    """One fault, due when ``at`` records count."""

    at: int
    kind: Kind


def plan(seed: int, times: Mapping[Kind, int], records: int) -> list[Fault]:
    """So many faults of each kind, in an order and at moments that the seed draws."""
    random = Random(seed)
    kinds = [kind for kind, number in times.items() for _ in range(number)]
    random.shuffle(kinds)
    moments = sorted(int(random.random() * LAST * records) for _ in kinds)
    return [Fault(at, kind) for at, kind in zip(moments, kinds, strict=True)]


class _Undo(NamedTuple):
    when_s: float
    machine: int
    text: str
    how: Callable[[], None]


def roles_on(machine: Machine) -> dict[str, psutil.Process]:
    """{role: its process} of the roles that run on a machine."""
    found = {}
    for pid in machine.processes():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            name = process.name()  # a role's process is named so
            if role_kind(name) in {"coordinator", "server", "trainer"}:
                found[name] = process
    return found


class Misfortunes:
    """Does what a plan says to a job, and sees that there are always hosts.

    Attributes:
        notes: what has happened, in order, with the seconds since the first.
        done: how often each kind has happened.
    """

    def __init__(self, job: HostedJob, seed: int, timeout_s: float) -> None:
        self.notes: list[str] = []
        self.done: Counter[str] = Counter()
        self._job, self._timeout_s = job, timeout_s
        self._random = Random(seed)
        self._began_s = time.monotonic()
        self._hosts: list[int] = []  # numbers of agents that nothing has befallen
        self._later: list[_Undo] = []
        self._in_a_row: Counter[str] = Counter()  # {role: kills since records advanced}
        self._records = 0
        self._is_choosy = True  # there is time for a better moment
        self._alone_until_s = 0.0  # a fault that takes long is not disturbed by others

    def do_all(self, faults: list[Fault]) -> None:
        """Do them all, each when it is due; see `undo_all`.

        For whom there is nobody yet, others do not wait.
        """
        coming, late = list(faults), list[Fault]()

        def has_struck() -> bool:
            while coming and coming[0].at <= self._records:
                late.append(coming.pop(0))
            self._is_choosy = bool(coming)
            if time.monotonic() < self._alone_until_s:
                return False
            for fault in list(late):
                if self._strikes()[fault.kind]():
                    late.remove(fault)
                    self.done[fault.kind] += 1
                    return True
            return False

        while coming or late:
            kinds = [fault.kind for fault in late]
            at = coming[0].at if coming else "as many as there are"
            self._wait(f"there is somebody for {kinds}, or {at} records count", has_struck)

    def undo_all(self) -> None:
        """Undo what is not for good, each in its time, be the job over or not."""
        while self._later:
            self._undo_due()
            time.sleep(POLL_S)

    def cut_off_one(self) -> int:
        """Cut a host off for good; its number."""
        self._wait("there is a host with processes", self._at_work)
        number = self._random.choice(self._at_work())
        self._lose(number, "cut off for good", self._job.machines[number].cut)
        return number

    def note(self, text: str) -> None:
        """Remember what has happened."""
        self.notes.append(f"{time.monotonic() - self._began_s:6.1f} s  {text}")

    def told(self) -> str:
        """All notes, a line each."""
        return "\n".join(self.notes)

    def _wait(self, what: str, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + STUCK_S
        while True:
            self._tend()
            if is_so():
                return
            if self._job.launcher.poll() is not None:
                raise AssertionError(f"the job is over before {what}:\n{self._all_said()}")
            assert time.monotonic() < end, f"not: {what}:\n{self._all_said()}"
            time.sleep(POLL_S)

    def _all_said(self) -> str:
        return f"{self.told()}\n-- the launcher --\n{self._job.said()}"

    def _tend(self) -> None:
        """Undo what is due, have enough hosts, and look how far the job is."""
        self._undo_due()
        for number in [
            n for n in self._hosts if self._job.agents[n - 1].poll() is not None
        ]:
            self._hosts.remove(number)
            self.note(f"machine {number} has left by itself")
        while len(self._hosts) < HOSTS:
            self._job.host("--orphan-after", f"{ORPHAN_S:g}s")
            self._hosts.append(len(self._job.agents))
        stands = self._job.stands()
        if stands is not None:
            if stands.records > self._records:
                self._in_a_row.clear()
            self._records = stands.records

    def _undo_due(self) -> None:
        now = time.monotonic()
        for due in [later for later in self._later if later.when_s <= now]:
            self._later.remove(due)
            due.how()
            self.note(due.text)

    def _ready(self) -> list[int]:
        """Hosts that have joined, unless there would be none left with one of them lost."""
        said = self._job.said()
        joined = [n for n in self._hosts if f" has joined: agent-{n}, " in said]
        parted = {later.machine for later in self._later}
        return [n for n in joined if n not in parted] if len(joined) > 1 else []

    def _at_work(self) -> list[int]:
        return [n for n in self._ready() if roles_on(self._job.machines[n])]

    def _strikes(self) -> dict[Kind, Callable[[], bool]]:
        """{kind: what does it, and says whether there was somebody to do it to}."""
        return {
            "trainer killed": lambda: self._kill("trainer"),
            "server killed": lambda: self._kill("server"),
            "coordinator killed": lambda: self._kill("coordinator"),
            "agent killed": lambda: self._lose_one("agent killed", self._kill_agent),
            "host lost": lambda: self._lose_one("host lost", lambda m, _: m.kill()),
            "host hung": lambda: self._lose_one("host hung", self._hang),
            "host unheard": lambda: self._lose_one("host unheard", self._unhear),
            "launcher unheard": lambda: self._lose_one("launcher unheard", self._mute),
            "way lost for a moment": lambda: self._part("way lost for a moment", MOMENT_S),
            "server out of reach": lambda: self._part("server out of reach", CUT_OFF_S),
        }

    def _kill(self, kind: str) -> bool:
        """Kill a process, but no role so often that the launcher must give the job up."""
        victims = []
        for number in [0, *self._hosts]:
            for role, process in roles_on(self._job.machines[number]).items():
                is_spared = self._in_a_row[role] >= RESTARTS_IN_A_ROW - 1
                if role_kind(role) == kind and not is_spared:
                    victims.append((role, number, process))
        if not victims:
            return False
        role, number, process = self._random.choice(sorted(victims, key=lambda v: v[0]))
        try:
            process.kill()
        except psutil.NoSuchProcess:
            return False
        self._in_a_row[role] += 1
        self.note(f"{kind} killed: {role} on machine {number}")
        return True

    def _lose_one(self, kind: Kind, how: Callable[[Machine, int], None]) -> bool:
        """Lose a host, one with processes if there is one."""
        ready = self._ready()
        if not ready:
            return False
        number = self._random.choice(self._at_work() or ready)
        machine = self._job.machines[number]
        self._lose(number, kind, lambda: how(machine, number))
        return True

    def _lose(self, number: int, kind: str, how: Callable[[], None]) -> None:
        roles = ", ".join(sorted(roles_on(self._job.machines[number])))
        self._hosts.remove(number)
        self.note(f"{kind}: machine {number} with {roles or 'nothing'}")
        how()

    def _kill_agent(self, _: Machine, number: int) -> None:
        self._job.agents[number - 1].kill()

    def _hang(self, machine: Machine, number: int) -> None:
        machine.hang()
        self._undo(number, "wakes", machine.wake)

    def _unhear(self, machine: Machine, number: int) -> None:
        machine.cut_one_way(self._job.machines[0])
        self._undo(number, "is heard again", machine.heal)

    def _mute(self, machine: Machine, number: int) -> None:
        self._job.machines[0].cut_one_way(machine)
        self._undo(number, "hears again", machine.heal)

    def _part(self, kind: Kind, seconds: float) -> bool:
        """Lose one way between a host with a trainer and another one with a server."""
        ready = self._ready()
        on = {n: {*map(role_kind, roles_on(self._job.machines[n]))} for n in ready}
        pairs = [
            (one, other)
            for one in ready
            for other in ready
            if one != other and "trainer" in on[one] and "server" in on[other]
        ]
        if not pairs and not self._is_choosy:  # servers may all be with the launcher
            pairs = [(one, other) for one in ready for other in ready if one != other]
        if not pairs:
            return False
        ends = list(self._random.choice(pairs))
        self._random.shuffle(ends)
        sender, receiver = (self._job.machines[number] for number in ends)
        self.note(f"{kind}: from machine {ends[0]} to machine {ends[1]}")
        sender.cut_one_way(receiver)
        self._undo(ends[0], f"reaches machine {ends[1]} again", sender.heal, seconds)
        if self.done[kind] < ALONE:
            self._alone_until_s = time.monotonic() + seconds
        return True

    def _undo(
        self,
        number: int,
        text: str,
        how: Callable[[], None],
        seconds: float | None = None,
    ) -> None:
        wait_s = self._timeout_s + BEYOND_S if seconds is None else seconds
        when_s = time.monotonic() + wait_s
        self._later.append(_Undo(when_s, number, f"machine {number} {text}", how))
