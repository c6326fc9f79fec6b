"""Who has come to be examined, and what each is to find out next.

::

    come      as many as are wanted, or as have come in time
    files     each writes one where checkpoints would lie, then all read those of the others
    ways      each tries each other one; nobody is in two of these at a time, so that none
              slows another down

Orders are computed anew from what a machine has reported: to lose or repeat either changes
nothing. A machine that is silent for `SILENT_S` is gone, and nobody is asked to try it.

Pure: time is an argument.
"""

from collections.abc import Iterator
from typing import final

from paceline.ids import host_id
from paceline.messages.hosts import (
    ExamOrders,
    ExamReport,
    JoinHost,
    MachineFacts,
    ProbeResult,
)

SILENT_S = 60.0  # longer than one try takes


@final
class Examinee:
    """A machine that has come.

    Attributes:
        clock_s: how far its clock is ahead of the examiner's; behind, if below zero.
        gone: why it is not there any more; empty: it is.
    """

    def __init__(self, host: str, message: JoinHost, now: float) -> None:
        """Nothing is known of it yet."""
        self.id, self.token = host, message.token
        self.name, self.address = message.name, message.address
        self.heard_s = now
        self.facts: MachineFacts | None = None
        self.clock_s: float | None = None
        self.probes: dict[str, ProbeResult] = {}  # {host: how it is reached from here}
        self.files: dict[str, str] = {}  # {name: why not}
        self.gone = ""
        self.is_told = False  # that all is over

    @property
    def file(self) -> str:
        """What it writes for the others to read."""
        return f"doctor-{self.token}.probe"


@final
class Examination:
    """What several machines find out about each other."""

    def __init__(self, wanted: int, *, has_files: bool) -> None:
        """Nobody has come; ``has_files``: there is a place for checkpoints to try."""
        self.wanted = wanted
        self._has_files = has_files
        self._examinees: dict[str, Examinee] = {}
        self._trying: dict[str, str] = {}  # {host: which one it was told to try}
        self._has_begun = False
        self.is_over = False

    @property
    def all(self) -> list[Examinee]:
        """All that have come, also those that are gone."""
        return list(self._examinees.values())

    @property
    def present(self) -> list[Examinee]:
        """All that are there."""
        return [one for one in self._examinees.values() if not one.gone]

    def join(self, message: JoinHost, now: float) -> Examinee:
        """A machine has come; a repeat changes nothing."""
        for one in self._examinees.values():
            if one.token == message.token:
                one.heard_s = now
                return one
        host = host_id(len(self._examinees))
        self._examinees[host] = Examinee(host, message, now)
        return self._examinees[host]

    def begin(self) -> None:
        """Nobody is waited for any more."""
        self._has_begun = True

    def report(self, report: ExamReport, now: float, wall_s: float) -> ExamOrders | str:
        """A machine has told what it has found; what is next, or why it is gone."""
        one = self._examinees.get(report.host)
        if one is None or one.token != report.token:
            return "no machine has come with this token"
        if one.gone:
            return f"{one.id} is given up: {one.gone}"
        one.heard_s = now
        one.facts, one.probes, one.files = report.facts, report.probes, report.files
        ahead_s = report.wall_s - wall_s  # at least: it was on its way meanwhile
        one.clock_s = ahead_s if one.clock_s is None else max(one.clock_s, ahead_s)
        if self._trying.get(one.id) in one.probes:
            del self._trying[one.id]
        if report.leaves:
            self._lose(one, report.leaves)
            return report.leaves
        return self._orders(one)

    def look(self, now: float) -> list[Examinee]:
        """Those that have been silent for too long, from now on gone."""
        silent = [one for one in self.present if now - one.heard_s >= SILENT_S]
        for one in silent:
            what = self._trying.get(one.id)
            since = (
                f" since it was asked to try {self._examinees[what].name}" if what else ""
            )
            self._lose(one, f"it has been silent for {SILENT_S:g} s{since}")
        return silent

    @property
    def is_complete(self) -> bool:
        """Whether all is known that is to be."""
        return (
            self._has_begun
            and all(one.facts is not None for one in self.present)
            and not any(self._unwritten())
            and not any(self._unread(one) for one in self.present)
            and not any(self._untried(one) for one in self.present)
        )

    @property
    def progress(self) -> str:
        """How far it is, in words; empty: it has not begun."""
        if not self._has_begun:
            return ""
        if self._has_files and (
            any(self._unwritten()) or any(map(self._unread, self.present))
        ):
            return "trying the place of the checkpoints"
        count = len(self.present)
        left = sum(len(self._untried(one)) for one in self.present)
        ways = count * (count - 1)
        return f"tried {ways - left} of {ways} ways between machines" if ways else ""

    def told(self, host: str) -> None:
        """A machine knows that all is over."""
        self._examinees[host].is_told = True

    def _orders(self, one: Examinee) -> ExamOrders:
        if self.is_over:
            return ExamOrders(is_over=True)
        if not self._has_begun:
            return ExamOrders()
        if self._has_files and one.file not in one.files:
            return ExamOrders(writes=one.file)
        if any(self._unwritten()):
            return ExamOrders()
        if unread := self._unread(one):
            return ExamOrders(reads=tuple(unread))
        other = self._next_for(one)
        return (
            ExamOrders()
            if other is None
            else ExamOrders(probes={other.id: (other.address, other.token)})
        )

    def _next_for(self, one: Examinee) -> Examinee | None:
        """Whom a machine is to try, if anybody is free; the same until it has."""
        if one.id in self._trying:
            return self._examinees[self._trying[one.id]]
        busy = {*self._trying, *self._trying.values()}
        if one.id in busy:
            return None
        for other in self._untried(one):
            if other.id not in busy:
                self._trying[one.id] = other.id
                return other
        return None

    def _untried(self, one: Examinee) -> list[Examinee]:
        """Those that a machine has not tried, the ones behind it first."""
        others = self.present
        at = others.index(one)
        behind = others[at + 1 :] + others[:at]
        return [other for other in behind if other.id not in one.probes]

    def _unwritten(self) -> Iterator[Examinee]:
        return (o for o in self.present if self._has_files and o.file not in o.files)

    def _unread(self, one: Examinee) -> list[str]:
        if not self._has_files:
            return []
        return [
            other.file
            for other in self._examinees.values()
            if other is not one
            and other.files.get(other.file) == ""
            and other.file not in one.files
        ]

    def _lose(self, one: Examinee, reason: str) -> None:
        one.gone = reason
        self._trying = {
            who: whom for who, whom in self._trying.items() if one.id not in (who, whom)
        }
