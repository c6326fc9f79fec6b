"""Supervision driven by hand: a job whose processes are numbers."""

import itertools

from paceline.launch.supervise.run_events import Decision, Happening, Start, Started
from paceline.launch.supervise.supervision import Supervision
from paceline.messages.watching import (
    Exited,
    JobStatus,
    LauncherOrders,
    ProcessStatus,
    QueueStatus,
)

TIMEOUT_S = 10.0
KILLED = -9


def status(
    records: int = 0,
    members: dict[str, int] | None = None,
    error: str | None = None,
    tasks_done: int = 0,
) -> JobStatus:
    processes = tuple(
        ProcessStatus(role.split("-")[0], role, 1, pid, "host", "", "ready", 0, 0)
        for role, pid in (members or {}).items()
    )
    return JobStatus(
        state="running",
        queue=QueueStatus(0, 0, 0, 0, 0),
        pace="sync",
        processes=processes,
        epochs=0,
        records=records,
        tasks_done=tasks_done,
        tasks_failed=0,
        steps=0,
        metrics={},
        total_records=0,
        timeline=0,
        cut=0,
        counters={},
        error=error,
    )


class Job:
    """A job whose started processes get growing pids."""

    def __init__(
        self, servers: int = 1, trainers: int = 1, disk_wait_s: float | None = None
    ) -> None:
        self.supervision = Supervision(
            [f"server-{n}" for n in range(servers)],
            [f"trainer-{n}" for n in range(trainers)],
            TIMEOUT_S,
            disk_wait_s,
        )
        self.pids: dict[str, int] = {}
        self._next_pid = itertools.count(100)
        self.apply(None, 0.0)

    def apply(self, happening: Happening, now: float) -> list[Decision]:
        decisions = self.supervision.apply(happening, now)
        for decision in decisions:
            if isinstance(decision, Start):
                self.pids[decision.role] = next(self._next_pid)
                started = Started(decision.role, self.pids[decision.role])
                assert self.supervision.apply(started, now) == []
        return decisions

    def die(self, role: str, now: float, code: int = KILLED) -> list[Decision]:
        return self.apply(Exited(role, self.pids[role], code, is_crash=code == 1), now)

    def answer(
        self,
        now: float,
        records: int = 0,
        *,
        members: dict[str, int] | None = None,
        replace: dict[str, int] | None = None,
        unreached: dict[str, str] | None = None,
        error: str | None = None,
        trainers: int = 0,
        is_saved: bool = False,
        tasks_done: int = 0,
    ) -> list[Decision]:
        orders = LauncherOrders(
            status=status(records, members, error, tasks_done),
            replace=replace or {},
            unreached=unreached or {},
            trainers=trainers,
            is_saved=is_saved,
        )
        return self.apply(orders, now)


def roles(decisions: list[Decision], kind: type) -> list[str]:
    return [decision.role for decision in decisions if isinstance(decision, kind)]
