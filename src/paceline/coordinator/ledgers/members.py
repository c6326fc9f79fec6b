"""Who is alive, judged by the receiver's clock alone.

A launcher's exit report counts at once, a closed connection after `GRACE_S`, silence
after the job's time-out. After a restart of the coordinator everybody has been heard
just now. A false death is harmless: the incarnation is fenced and joins again.

What servers have told of themselves, which a restarted coordinator is told again, and what
trainers were seen to do, and were lost with.

Pure.
"""

import math
from typing import NamedTuple, final

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import LossKind
from paceline.ids import TaskKey
from paceline.messages.server import MarkEntry, MarksReport, ServerReport, SlotLoad
from paceline.messages.shared import BlockAt, SpentTime
from paceline.messages.waits import Wait

GRACE_S = 0.5  # a connection that closes and comes back within this was never lost


class Loss(NamedTuple):
    """A member that is dead to the job, and why."""

    incarnation: int
    kind: LossKind
    reason: str


@final
class MemberInfo:
    """What is known of a live member but need not survive."""

    def __init__(self, now: float) -> None:
        self.heard_s = now
        self.closed_s: float | None = None
        self.pid = 0
        self.host = ""
        self.address = ""
        self.state = "starting"
        self.wait: Wait | None = None  # for others than the coordinator
        self.wait_s = 0.0  # when that was told
        self.clock = 0
        self.evaluated = 0  # batches that needed no step
        self.spent: SpentTime | None = None

    def note_spent(self, told: SpentTime | None) -> None:
        """What it has told; a question that is asked again tells what it told before."""
        before = self.spent
        if told is not None:
            new = told if before is None else SpentTime(*map(max, before, told))
            self.spent = new


@final
class Members:
    """Signs of life by incarnation."""

    def __init__(self, timeout_s: float, now: float) -> None:
        """``timeout_s``: silence after which a member counts as dead."""
        self._timeout_s = timeout_s
        self._infos: dict[int, MemberInfo] = {}
        self._quiet_until_s = -math.inf  # before then nobody can be found dead
        self.looked_s = now  # when losses were looked for last

    def heard(self, incarnation: int, now: float) -> MemberInfo:
        """A message of a member arrived."""
        info = self._infos.get(incarnation)
        if info is None:
            info = self._infos[incarnation] = MemberInfo(now)
        info.heard_s = now
        info.closed_s = None
        return info

    def closed(self, incarnation: int, now: float) -> None:
        """A member's connection closed."""
        info = self._infos.get(incarnation)
        if info is not None and info.closed_s is None:
            info.closed_s = now
            self._quiet_until_s = min(self._quiet_until_s, now + GRACE_S)

    def excuse(self, seconds: float) -> None:
        """Nobody could be heard for so long, through no fault of theirs."""
        for info in self._infos.values():
            info.heard_s += seconds
            if info.closed_s is not None:
                info.closed_s += seconds

    def info(self, incarnation: int) -> MemberInfo | None:
        """What is known of a member, if anything was heard of it."""
        return self._infos.get(incarnation)

    def forget(self, incarnation: int) -> None:
        """A member is one no longer."""
        self._infos.pop(incarnation, None)

    def with_pid(self, pid: int) -> list[int]:
        """Incarnations of a process."""
        return [inc for inc, info in self._infos.items() if info.pid == pid]

    def are_quiet(self, now: float) -> bool:
        """Whether nobody can be dead by now, and `losses` need not be asked."""
        return now < self._quiet_until_s

    def losses(self, live: dict[int, str], now: float) -> list[Loss]:
        """Members of ``live`` ({incarnation: role id}) that are dead by now."""
        found = []
        until_s = now + self._timeout_s  # who is heard of from now on has as long
        for incarnation, role in live.items():
            info = self._infos.get(incarnation)
            if info is None:
                info = self._infos[incarnation] = MemberInfo(now)
            if info.closed_s is not None and now - info.closed_s >= GRACE_S:
                reason = f"{role} closed its connection and did not come back"
                found.append(Loss(incarnation, "disconnected", reason))
            elif now - info.heard_s >= self._timeout_s:
                reason = f"{role} was silent for {self._timeout_s:g} s"
                found.append(Loss(incarnation, "silent", reason))
            until_s = min(until_s, info.heard_s + self._timeout_s)
            if info.closed_s is not None:
                until_s = min(until_s, info.closed_s + GRACE_S)
        self._quiet_until_s = until_s
        return sorted(found)


@final
class Reports:
    """What servers have told."""

    def __init__(self, count: int) -> None:
        """Nothing is told; ``count``: servers of the job."""
        self.reports: dict[str, ServerReport] = {}  # {server id: its last report}
        self.loads: dict[str, tuple[SlotLoad, ...]] = {}  # {server id: told last}
        self.fences: dict[int, dict[str, tuple[MarkEntry, ...]]] = {}
        self.marks: dict[str, MarksReport] = {}  # {server id: after a return}
        self.to_replace: dict[str, int] = {}  # {role id: pid of its dead process}
        self.unreached: dict[str, str] = {}  # of these: why it is to be on another host
        self._count = count

    def are_ready(self, state: Durable) -> bool:
        """Whether all servers of the job are members, on this timeline, and ready."""
        live, timeline = state.servers, state.timeline
        if len(live) != self._count:
            return False
        for server, incarnation in live.items():  # a loop: it is asked at every event
            report = self.reports.get(server)
            if report is None or report.incarnation != incarnation:
                return False
            if report.timeline != timeline or not report.ready:
                return False
        return True

    def last_tracked(self) -> int:
        """Number of the tracked state that they keep with the cut; 0: there is none."""
        return max((report.tracked for report in self.reports.values()), default=0)

    def replaced(self, role: str) -> None:
        """The process that was to replace another one is there."""
        self.to_replace.pop(role, None)
        self.unreached.pop(role, None)

    def drop(self) -> None:
        """The timeline is left: marks and fences are told anew."""
        self.fences.clear()
        self.marks.clear()


KEPT_LOST = 1024  # lost trainers whose end the launcher may still report


@final
class TrainersSeen:
    """Of all trainers."""

    def __init__(self) -> None:
        self.asked_stage: dict[str, int] = {}  # {trainer id: the stage it is in}
        self.asked_first = (-1, 0.0)  # the last stage asked for, and since when
        self.records: dict[str, int] = {}  # {trainer id: records finished by it}
        self.last_late: dict[tuple[int, int], int] = {}  # {(incarnation, part): push}
        # {lost trainer and its pid, which is of its host alone: tasks}
        self.lost_tasks: dict[tuple[str, int], tuple[TaskKey, ...]] = {}
        # {(stage, block): who has left it, its incarnation}; no more than a hint
        self.blocks_at: dict[tuple[int, int], tuple[BlockAt, int]] = {}
        self.setter = 0  # incarnation whose changed values are on their way

    def lost(self, trainer: str, pid: int, tasks: tuple[TaskKey, ...]) -> None:
        """A process is lost with these tasks; that it crashed may be told later."""
        self.lost_tasks[trainer, pid] = tasks
        if len(self.lost_tasks) > KEPT_LOST:
            self.lost_tasks.pop(next(iter(self.lost_tasks)))

    def forget(self, trainer: str, incarnation: int) -> None:
        """A trainer is lost or gone."""
        self.asked_stage.pop(trainer, None)
        for key in [key for key in self.last_late if key[0] == incarnation]:
            del self.last_late[key]

    def drop(self) -> None:
        """The timeline is left: everybody says again where it is."""
        self.asked_stage.clear()
        self.blocks_at.clear()
