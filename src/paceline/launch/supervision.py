"""What to start, what to kill, when to give up: the launcher's decisions.

::

    a process ends        coordinator, server: start it again
                          trainer: exit 0 is done; anything else, start it again
    again and again       at once, then after 0.1 s, 0.2 s ... 5 s; three deaths in a row
                          of one role while records stand still fail the job
    a server is replaced  this very process is killed; its end is like any other
    a server is no member for two time-outs, while the coordinator answers: the same
    no answer             a coordinator that answers nothing for one time-out is killed
    a trainer lingers     others have finished, the coordinator counts it no longer, and
                          two time-outs have passed: it is killed and counts as done
    all trainers done     the next answer of the coordinator is its last word: finish

Records that fall (a return to a cut) and rise again are progress.

Pure: time is an argument.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, final

from paceline.ids import COORDINATOR, role_kind
from paceline.messages import Exited, JobStatus, LauncherOrders

DEATHS_IN_A_ROW = 3
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
COORDINATOR_START_S = 120.0  # a journal is read before the first answer
LONGEST_STEP_S = 1.0  # between two answers; more was the launcher's own absence
SILENT_ASKS = 3  # a launcher that was stopped itself does not blame the coordinator


class Started(NamedTuple):
    """A process of a role runs."""

    role: str
    pid: int


class Unanswered(NamedTuple):
    """The coordinator was asked and did not answer."""


class Start(NamedTuple):
    """Start a process of this role; none of it is left."""

    role: str
    reason: str


class Kill(NamedTuple):
    """Kill this role's process; its end is reported like any other."""

    role: str
    reason: str


class GiveUp(NamedTuple):
    """The job has failed; ``role`` is whose death was the last, if one was."""

    role: str | None
    reason: str


class Finish(NamedTuple):
    """All trainers are done and this is the coordinator's last word."""

    status: JobStatus


Happening = Started | Exited | LauncherOrders | Unanswered | None
Decision = Start | Kill | GiveUp | Finish


@final
class _Post:
    """A role that must be filled."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.kind = role_kind(role)
        self.state: Literal["waiting", "starting", "running", "done"] = "waiting"
        self.due_s = 0.0  # waiting: when to start
        self.reason = "the job begins"
        self.pid = 0
        self.since_s = 0.0  # running: since when
        self.is_member = False  # the coordinator counts this very process
        self.uncounted_s = 0.0  # running: for how long it has not, by the answers
        self.is_killed = False
        self.deaths = 0  # in a row, without progress
        self.lowest = 0  # records: the fewest since the last death


@final
class Supervision:
    """The processes of a job and what becomes of them. For one thread."""

    def __init__(
        self, servers: Sequence[str], trainers: Sequence[str], timeout_s: float
    ) -> None:
        """Nothing runs yet; everything is due.

        Args:
            servers: role ids.
            trainers: role ids.
            timeout_s: the job's time-out: silence after which a role counts as dead.
        """
        self._posts = {role: _Post(role) for role in (COORDINATOR, *servers, *trainers)}
        self._timeout_s = timeout_s
        self._records = 0
        self._answered_s: float | None = None
        self._unanswered = 0
        self._finished_s: float | None = None  # the last clean exit of a trainer
        self.restarts = {"coordinator": 0, "server": 0, "trainer": 0}

    def apply(self, happening: Happening, now: float) -> list[Decision]:
        """Take note of what happened and decide what to do.

        Args:
            happening: None when only time has passed.
            now: seconds.
        """
        decisions: list[Decision] = []
        if isinstance(happening, Started):
            self._started(happening, now)
        elif isinstance(happening, Exited):
            decisions += self._exited(happening, now)
        elif isinstance(happening, LauncherOrders):
            decisions += self._answered(happening, now)
        elif isinstance(happening, Unanswered):
            decisions += self._unanswered_ask(now)
        return [*decisions, *self._lingering(now), *self._due(now)]

    def num_alive(self) -> int:
        """Trainers that run."""
        return sum(p.state == "running" for p in self._trainers())

    def _trainers(self) -> list[_Post]:
        return [post for post in self._posts.values() if post.kind == "trainer"]

    def _is_over(self) -> bool:
        return all(post.state == "done" for post in self._trainers())

    def _started(self, started: Started, now: float) -> None:
        post = self._posts[started.role]
        post.state, post.pid, post.since_s = "running", started.pid, now
        post.is_member = post.is_killed = False
        post.uncounted_s = 0.0
        if post.kind == "coordinator":
            self._answered_s, self._unanswered = None, 0

    def _exited(self, exited: Exited, now: float) -> list[Decision]:
        post = self._posts[exited.role]
        if post.kind == "trainer" and (exited.code == 0 or post.is_killed):
            post.state = "done"
            self._finished_s = now
            return []
        if post.kind == "server" and self._is_over():
            post.state = "done"
            return []
        post.deaths += 1
        post.lowest = self._records
        if post.deaths >= DEATHS_IN_A_ROW:
            reason = (
                f"{post.role} died {post.deaths} times in a row while records stood still"
            )
            return [GiveUp(post.role, reason)]
        post.state = "waiting"
        post.due_s = now + _delay_s(post.deaths)
        post.reason = f"it died ({post.deaths} in a row)"
        return []

    def _answered(self, orders: LauncherOrders, now: float) -> list[Decision]:
        since_s = now if self._answered_s is None else self._answered_s
        passed_s = min(now - since_s, LONGEST_STEP_S)
        self._answered_s, self._unanswered = now, 0
        self._progress(orders.status.records)
        if orders.status.error is not None:
            return [GiveUp(None, orders.status.error)]
        if self._is_over():
            return [Finish(orders.status)]
        members = {process.id: process.pid for process in orders.status.processes}
        for post in self._posts.values():
            post.is_member = members.get(post.role) == post.pid
            post.uncounted_s = 0.0 if post.is_member else post.uncounted_s + passed_s
        replaced = {r for r, pid in orders.replace.items() if self._posts[r].pid == pid}
        return [
            decision
            for role, post in self._posts.items()
            if role in replaced or self._is_unheard(post)
            for decision in _kill(post, "it is dead to the coordinator")
        ]

    def _is_unheard(self, post: _Post) -> bool:
        return post.kind == "server" and post.uncounted_s >= 2 * self._timeout_s

    def _progress(self, records: int) -> None:
        self._records = records
        for post in self._posts.values():
            if records > post.lowest:
                post.deaths = 0
            post.lowest = min(post.lowest, records)

    def _unanswered_ask(self, now: float) -> list[Decision]:
        self._unanswered += 1
        post = self._posts[COORDINATOR]
        if self._answered_s is not None:
            silent_s, limit_s = now - self._answered_s, self._timeout_s
        else:
            silent_s = now - post.since_s
            limit_s = max(self._timeout_s, COORDINATOR_START_S)
        if self._unanswered < SILENT_ASKS or silent_s < limit_s:
            return []
        return _kill(post, f"it answered nothing for {silent_s:.1f} s")

    def _is_lingering(self, post: _Post, now: float) -> bool:
        if self._finished_s is None or post.is_member:
            return False
        return now - max(self._finished_s, post.since_s) >= 2 * self._timeout_s

    def _lingering(self, now: float) -> list[Decision]:
        reason = "the others have finished and the coordinator counts it no longer"
        return [
            decision
            for post in self._trainers()
            if self._is_lingering(post, now)
            for decision in _kill(post, reason)
        ]

    def _due(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        for post in self._posts.values():
            if post.state != "waiting" or post.due_s > now:
                continue
            if post.pid:
                self.restarts[post.kind] += 1
            post.state = "starting"
            decisions.append(Start(post.role, post.reason))
        return decisions


def _kill(post: _Post, reason: str) -> list[Decision]:
    """Kill a running process, once."""
    if post.state != "running" or post.is_killed:
        return []
    post.is_killed = True
    return [Kill(post.role, reason)]


def _delay_s(deaths: int) -> float:
    """How long to wait before the restart that follows the n-th death in a row."""
    if deaths <= 1:
        return 0.0
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (deaths - 2))
