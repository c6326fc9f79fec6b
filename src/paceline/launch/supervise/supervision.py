"""What to start, what to kill, when to give up: the launcher's decisions.

::

    a process ends        coordinator, server: start it again
                          trainer: exit 0 is done; anything else, start it again
    again and again       at once, then after 0.1 s, 0.2 s ... 5 s; a death after three
                          restarts in a row while the work stands still fails the job, and
                          so does a server's eleventh crash before the work comes further
    a script fails        twice in the same way, on other data: the job fails at once
    a trainer exits 2     wrong usage, its own or paceline's: the job fails at once
    a trainer exits 75    it was preempted: start it again after a second, without a limit
    the job is scaled     more: start trainers; fewer: the last ones are told to leave
    interrupted           all trainers are told to leave, then a cut is taken, then the end
    a host is lost        what it had starts again at once, elsewhere; no death counts
    no host has room      look again after a second, until a trainer has finished
    a server is replaced  this very process is killed; its end is like any other
    a role is unreached   the same, and it starts on another host
    a server is no member for two time-outs, while the coordinator answers: the same
    no answer             a coordinator that answers nothing for one time-out is killed; one
                          that starts, once it has done nothing for so long
    the disk is full      the run waits, as long as it may: then it ends, to be resumed
    a trainer lingers     others have finished, the coordinator counts it no longer, and
                          two time-outs have passed: it is killed and counts as done
    all trainers done     the next answer of the coordinator is its last word: finish

The work is records and tasks that are done: an evaluation trains no record. What falls (a
return to a cut) and rises again is progress.

Pure: time is an argument.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, final

from paceline.errors import DISK_EXIT_CODE, PREEMPTED_EXIT_CODE, USAGE_EXIT_CODE
from paceline.ids import COORDINATOR, role_kind, trainer_id
from paceline.launch.supervise.failure import Failures
from paceline.launch.supervise.hearing import Hearing
from paceline.launch.supervise.run_events import (
    CoordinatorSilent,
    Decision,
    EndInterrupted,
    Finish,
    GiveUp,
    Happening,
    HostLost,
    Kill,
    NoRoom,
    Retire,
    RunInterrupted,
    ScriptFailed,
    Start,
    Started,
)
from paceline.messages.watching import Exited, JobStatus, LauncherOrders

RESTARTS_IN_A_ROW = 3
CRASHES = 10
NO_ROOM_S = 1.0  # before a role is looked for a place again
PREEMPTED_S = 1.0  # before a preempted trainer is started again
LEAVE_S = 15.0  # interrupted: how long a trainer may take to leave
RETIRE_S = 600.0  # scaled down: the same, for one that may be past its loop, evaluating
SAVE_S = 60.0  # how long the last cut may take
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
NOT_SAVED = "interrupted: nothing can be saved on a full disk, and all ends now"
NO_SPACE_S = 5.0  # before a coordinator that found no space is started again


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
        self.has_no_room = False  # no machine takes it
        self.since_s = 0.0  # running: since when
        self.is_member = False  # the coordinator counts this very process
        self.uncounted_s = 0.0  # running: for how long it has not, by the answers
        self.is_killed = False
        self.moves = False  # killed, to start on another host
        self.told_s: float | None = None  # when it was told to leave
        self.deaths = 0  # in a row, without progress
        self.crashes = 0  # of its own doing, while the work came no further than ever
        self.lowest = 0  # work: the least since the last death


@final
class Supervision:
    """The processes of a job and what becomes of them. For one thread."""

    def __init__(
        self,
        servers: Sequence[str],
        trainers: Sequence[str],
        timeout_s: float,
        disk_wait_s: float | None = None,
    ) -> None:
        """Nothing runs yet; everything is due.

        After ``timeout_s`` of silence a role counts as dead; the run waits ``disk_wait_s``
        for space on a disk, or for ever.
        """
        self._posts = {role: _Post(role) for role in (COORDINATOR, *servers, *trainers)}
        self._timeout_s, self._disk_wait_s = timeout_s, disk_wait_s
        self._work = self._furthest = 0
        self._status: JobStatus | None = None  # the last one
        self._no_space_s: float | None = None  # since when no coordinator could start
        self._hearing = Hearing(timeout_s)
        self._finished_s: float | None = None  # the last clean exit of a trainer
        self._is_interrupted = False
        self._drained_s: float | None = None  # interrupted: when the last trainer had left
        self.failures = Failures()
        self.restarts = {"coordinator": 0, "server": 0, "trainer": 0}

    def apply(self, happening: Happening, now: float) -> list[Decision]:
        """Take note of what happened (None: only time has passed) and decide what to do."""
        decisions: list[Decision] = []
        if isinstance(happening, Started | NoRoom):
            self._started(happening, now)
        elif isinstance(happening, Exited):
            decisions += self._exited(happening, now)
        elif isinstance(happening, HostLost):
            for exited in happening.exits:
                self._lost(exited, happening.host, now)
        elif isinstance(happening, ScriptFailed):
            decisions += self._failed(happening, now)
        elif isinstance(happening, LauncherOrders):
            decisions += self._answered(happening, now)
        elif isinstance(happening, CoordinatorSilent):
            decisions += self._unanswered(happening, now)
        elif isinstance(happening, JobStatus):
            decisions += self._held_up(happening, now)
        elif isinstance(happening, RunInterrupted):
            self._is_interrupted = True
        decisions += self._draining(now)
        return [*decisions, *self._lingering(now), *self._due(now)]

    @property
    def is_saving(self) -> bool:
        """Whether the coordinator is to take the last cut of an interrupted run."""
        return self._drained_s is not None

    def _trainers(self) -> list[_Post]:
        return [post for post in self._posts.values() if post.kind == "trainer"]

    def _is_over(self) -> bool:
        placed = [post for post in self._trainers() if not post.has_no_room]
        return bool(placed) and all(post.state == "done" for post in placed)

    def _started(self, started: Started | NoRoom, now: float) -> None:
        post = self._posts[started.role]
        post.has_no_room = isinstance(started, NoRoom)
        if isinstance(started, NoRoom):
            post.state, post.due_s, post.pid = "waiting", now + NO_ROOM_S, 0
            return
        post.state, post.pid, post.since_s = "running", started.pid, now
        post.is_member = post.is_killed = post.moves = False
        post.uncounted_s = 0.0
        if post.kind == "coordinator":
            self._hearing.note_start(now)

    def _exited(self, exited: Exited, now: float) -> list[Decision]:
        post = self._posts[exited.role]
        is_ended = post.is_killed and not post.moves
        if post.kind == "trainer" and (exited.code == 0 or is_ended):
            post.state = "done"
            self._finished_s = now
            return []
        if post.kind == "server" and self._is_over():
            post.state = "done"
            return []
        if post.told_s is not None:
            del self._posts[post.role]
            return []
        if post.kind == "trainer" and exited.code == PREEMPTED_EXIT_CODE:
            post.state, post.due_s = "waiting", now + PREEMPTED_S
            post.reason = "it was preempted"
            return []
        if post.kind == "trainer" and exited.code == USAGE_EXIT_CODE:
            reason = f"{post.role} ended with exit code 2 (wrong usage), as it would again"
            return [GiveUp(post.role, reason)]
        if post.kind == "coordinator" and exited.code == DISK_EXIT_CODE:
            return self._without_space(post, now)
        post.deaths += 1
        post.lowest = self._work
        if post.deaths > RESTARTS_IN_A_ROW:
            reason = (
                f"{post.role} died {post.deaths} times in a row while the work stood still"
            )
            return [GiveUp(post.role, reason)]
        post.crashes += exited.is_crash and post.kind == "server"
        if post.crashes > CRASHES:
            told = f"has failed {post.crashes} times while the work came no further"
            return [GiveUp(post.role, f"{post.role} {told}: its log says why")]
        post.state = "waiting"
        post.due_s = now + _delay_s(post.deaths)
        post.reason = f"it died ({post.deaths} in a row)"
        return []

    def _lost(self, exited: Exited, host: str, now: float) -> None:
        post = self._posts[exited.role]
        if post.told_s is not None:
            del self._posts[post.role]
        elif post.kind == "server" and self._is_over():
            post.state = "done"
        elif post.kind == "trainer" and post.is_killed and not post.moves:
            post.state, self._finished_s = "done", now
        else:
            post.state, post.due_s = "waiting", now
            post.reason = f"{host} is lost"

    def _failed(self, failed: ScriptFailed, now: float) -> list[Decision]:
        post = self._posts[failed.exited.role]
        was_wanted = post.told_s is None and not post.is_killed
        decisions = self._exited(failed.exited, now)
        if not was_wanted:
            return decisions
        reason = self.failures.note(
            post.role, failed.failure, failed.said, post.since_s, now
        )
        if reason is None or any(isinstance(d, GiveUp) for d in decisions):
            return decisions
        return [GiveUp(post.role, reason)]

    def _without_space(self, post: _Post, now: float) -> list[Decision]:
        """A coordinator could not open its journal: it is no death, if there was space."""
        since_s = self._no_space_s = now if self._no_space_s is None else self._no_space_s
        limit_s = 0.0 if self._status is None else self._disk_wait_s
        if limit_s is not None and now - since_s >= limit_s:
            return [GiveUp(post.role, "the job folder cannot be written", is_by_disk=True)]
        post.state, post.due_s = "waiting", now + NO_SPACE_S
        post.reason = "there may be space for its journal by now"
        return []

    def _held_up(self, status: JobStatus, now: float) -> list[Decision]:
        """The coordinator answers, and the time is nobody's silence."""
        self._hearing.note_answer(now)
        self._finished_s = None if self._finished_s is None else now
        if self._is_over():  # whatever trainers were told before they ended is journalled
            return [Finish(status)]
        return self._stands(status)

    def _stands(self, status: JobStatus) -> list[Decision]:
        """Something cannot be written: whether the run goes on waiting for it."""
        self._status, self._no_space_s = status, None
        trouble, limit_s = status.trouble, self._disk_wait_s
        if trouble is None or trouble.waited_s is None:
            return []
        if self._is_interrupted:
            ends = trouble.kind == "journal"  # else the last cut may be tried again
            return [EndInterrupted(f"interrupted; {trouble.text}")] if ends else []
        if limit_s is None or trouble.waited_s < limit_s:
            return []
        reason = f"{trouble.text}, longer than --disk-wait ({limit_s:g} s)"
        return [GiveUp(None, reason, is_by_disk=True)]

    def _answered(self, orders: LauncherOrders, now: float) -> list[Decision]:
        passed_s = self._hearing.note_answer(now)
        self._progress(orders.status.records + orders.status.tasks_done)
        if given_up := self._stands(orders.status):
            return given_up
        if orders.status.error is not None:
            # For its first checkpoint; later ones that fail end no job.
            is_by_disk = orders.status.trouble is not None and not orders.status.records
            return [GiveUp(None, orders.status.error, is_by_disk=is_by_disk)]
        if self._is_over():
            return [Finish(orders.status)]
        if self.is_saving and orders.is_saved:
            return [EndInterrupted(f"interrupted; saved as cut {orders.status.cut}")]
        members = {process.id: process.pid for process in orders.status.processes}
        for post in self._posts.values():
            post.is_member = members.get(post.role) == post.pid
            post.uncounted_s = 0.0 if post.is_member else post.uncounted_s + passed_s
        replaced = {
            role
            for role, pid in orders.replace.items()
            if role in self._posts and self._posts[role].pid == pid
        }
        for role in replaced.intersection(orders.unreached):
            self._posts[role].moves = self._posts[role].state == "running"
        kills = [
            decision
            for role, post in self._posts.items()
            if role in replaced
            or (post.kind == "server" and post.uncounted_s >= 2 * self._timeout_s)
            for decision in _kill(
                post, orders.unreached.get(role, "it is dead to the coordinator")
            )
        ]
        return [*kills, *self._scaled(orders.trainers, now)]

    def _scaled(self, wanted: int, now: float) -> list[Decision]:
        """Have as many trainers as are wanted; 0: as many as there are."""
        staying = [post for post in self._trainers() if post.told_s is None]
        if not wanted or self._is_interrupted:
            return []
        if wanted > len(staying) and not any(post.state == "done" for post in staying):
            numbers = (n for n in range(2 * wanted) if trainer_id(n) not in self._posts)
            for _, number in zip(range(wanted - len(staying)), numbers, strict=False):
                post = self._posts[trainer_id(number)] = _Post(trainer_id(number))
                post.reason = f"the job is scaled to {wanted} trainers"
        at_work = [post for post in staying if post.state in {"waiting", "running"}]
        at_work.sort(key=lambda post: post.has_no_room)  # these go first
        surplus = at_work[::-1][: max(0, len(staying) - wanted)]
        return self._retire(surplus, f"the job is scaled to {wanted} trainers", now)

    def _retire(self, posts: Iterable[_Post], reason: str, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        for post in posts:
            if post.state in {"waiting", "starting"}:
                del self._posts[post.role]
            elif post.state == "running" and post.told_s is None:
                post.told_s = now
                decisions.append(Retire(post.role, reason))
        return decisions

    def _draining(self, now: float) -> list[Decision]:
        """Let an interrupted run come to its end; kill those who do not leave in time."""
        trainers = self._trainers()
        decisions = (
            self._retire(trainers, "interrupted", now) if self._is_interrupted else []
        )
        allowed_s = LEAVE_S if self._is_interrupted else RETIRE_S
        for post in trainers:
            if post.told_s is not None and now - post.told_s >= allowed_s:
                decisions += _kill(post, f"it has not left within {allowed_s:g} s")
        has_left = all(post.state == "done" for post in self._trainers())
        if self._is_interrupted and has_left and self._drained_s is None:
            self._drained_s = now
        if self._drained_s is not None and now - self._drained_s >= SAVE_S:
            trouble = self._status.trouble if self._status is not None else None
            why = f": {trouble.text}" if trouble is not None else ""
            decisions.append(
                EndInterrupted(f"interrupted; no cut could be taken in {SAVE_S:g} s{why}")
            )
        return decisions

    def _progress(self, work: int) -> None:
        self._work = work
        is_further, self._furthest = work > self._furthest, max(work, self._furthest)
        for post in self._posts.values():
            post.crashes = 0 if is_further else post.crashes
            if work > post.lowest:
                post.deaths = 0
            post.lowest = min(post.lowest, work)

    def _unanswered(self, asked: CoordinatorSilent, now: float) -> list[Decision]:
        reason = self._hearing.note_silence(asked.signs, now)
        if self.is_saving and self._hearing.is_in_vain:
            return [EndInterrupted("interrupted; the coordinator does not answer")]
        return [] if reason is None else _kill(self._posts[COORDINATOR], reason)

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
            is_too_late = post.has_no_room and self._finished_s is not None
            if post.state != "waiting" or post.due_s > now or is_too_late:
                continue
            if post.pid:
                self.restarts[post.kind] += 1
            post.state = "starting"
            decisions.append(Start(post.role, post.reason, post.moves))
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
