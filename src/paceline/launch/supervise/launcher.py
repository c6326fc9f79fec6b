"""Keeps the processes of a job running until it has ended, then ends them all.

::

    wait until a process has ended, 0.2 s at most; less while one cannot start yet
    -> report exits to the coordinator, learn how the job stands
    -> `supervision` decides -> start, kill, give up, finish

Waits: for processes and for the coordinator, with bounds. For one thread: the one that
lives as long as the children do.
"""

import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, final

from paceline.errors import PREEMPTED_EXIT_CODE, TransportError
from paceline.ids import COORDINATOR, LAUNCHER, role_kind
from paceline.launch.job import JobDir
from paceline.launch.processes import (
    Interrupts,
    Watched,
    end_all,
    explain_exit,
    is_crash,
    signs_of_life,
    wait_any,
)
from paceline.launch.supervise.failure import take_failure
from paceline.launch.supervise.run_events import (
    CoordinatorSilent,
    Decision,
    EndInterrupted,
    Finish,
    GiveUp,
    HostLost,
    Kill,
    NoRoom,
    Retire,
    RunInterrupted,
    ScriptFailed,
    Start,
    Started,
)
from paceline.launch.supervise.supervision import LEAVE_S as TRAINERS_LEAVE_S
from paceline.launch.supervise.supervision import NOT_SAVED, SAVE_S, Supervision
from paceline.messages.shared import Refusal
from paceline.messages.waits import Wait
from paceline.messages.watching import Exited, JobStatus, LauncherOrders, LauncherReport
from paceline.timing import Clock, Deadline
from paceline.trainer.client import Waits
from paceline.transport.connection import Connection
from paceline.transport.patience import PatientConnection
from paceline.watch.progress import Show, Troubles
from paceline.watch.summary import Ending, RunTime, Verdict, decide_ending, where_it_stands

REPORT_EVERY_S = 0.2
AGAIN_S = 0.02  # a process could not be started yet
ANSWER_S = 0.5  # how long an answer may take
LEAVE_S = 3.0  # how long servers may take to shut down when the job is over
GRACE_S = 2.5  # between SIGTERM and SIGKILL; Ctrl-C must end everything within 5 s


class Ended(NamedTuple):
    """How a job ended, and the coordinator's last word if there was one."""

    verdict: Verdict
    status: JobStatus | None
    time: RunTime


_AWAY = Wait("coordinator", "it does not say how the job stands", (COORDINATOR,))


@final
class CoordinatorLink:
    """The launcher's way to the coordinator: exits go there at once, status comes back.

    It is made with the first report, and again whenever the coordinator has come back. An
    exit stays in the queue until a report that carried it was answered; reporting one twice
    changes nothing.
    """

    def __init__(
        self, connect: Callable[[], Connection], no_room: Callable[[], str] = lambda: ""
    ) -> None:
        """Nothing is reported yet; ``no_room`` says which roles have no machine."""
        self._coordinator, self._no_room = PatientConnection(connect), no_room
        self._exits: list[Exited] = []

    def note_exit(self, exited: Exited) -> None:
        """Put an exit into the queue."""
        self._exits.append(exited)

    def call_report(
        self,
        timeout_s: float,
        *,
        finishing: bool = False,
        saving: bool = False,
        interrupted: bool = False,
    ) -> LauncherOrders | JobStatus | None:
        """Report all exits and learn how the job stands.

        A status alone is given while nothing can be journalled, None when the coordinator
        could not be reached or did not answer in time; the exits are kept, then, for the
        next report.
        """
        sent = tuple(self._exits)
        report = LauncherReport(
            exits=sent,
            finishing=finishing,
            saving=saving,
            interrupted=interrupted,
            no_room=self._no_room(),
        )
        try:
            answer = self._coordinator.call(report, timeout_s)
        except TransportError:
            return None
        if isinstance(answer, Refusal):
            return None
        if isinstance(answer, JobStatus):
            return answer
        assert isinstance(answer, LauncherOrders)
        del self._exits[: len(sent)]
        return answer

    def close(self) -> None:
        """Hang up."""
        self._coordinator.close()


@final
class Launcher:
    """Starts, watches and ends the processes of one job; decides nothing."""

    def __init__(
        self,
        supervision: Supervision,
        start: Callable[[Start], Watched | NoRoom | None],
        job: JobDir,
        link: CoordinatorLink,
        show: Show,
        clock: Clock,
    ) -> None:
        """Nothing is started.

        ``start`` does so (None: not yet, ask again); ``link`` is closed at the end.
        """
        self._supervision = supervision
        self._start_role = start
        self._held_up: list[Start] = []  # decided, and to be asked again
        self._job = job
        self._link = link
        self._show = show
        self._clock = clock
        self._children: dict[str, Watched] = {}  # {role: its running process}
        self._killed: dict[str, str] = {}  # {role of one that this launcher killed: why}
        self._troubles = Troubles()
        self._last_words: dict[str, list[str]] = {}  # {role: end of its last log}
        self._status: JobStatus | None = None
        self._time = RunTime(clock.now_s())
        self._report_by = Deadline(clock, 0.0)  # also while a process cannot start yet
        self._is_answered = False  # the last report was
        self._waits = Waits(LAUNCHER, clock, show.say)
        self._is_told_to_end = False  # an operator has asked for it
        self._is_ending = False  # the user has, one way or another

    def ended(self, verdict: Verdict) -> Ended:
        """The job as it is known to stand, and how it has ended."""
        return Ended(verdict, self._status, self._time)

    def wait_ended(self, interrupts: Interrupts) -> Ended:
        """Run the job to its end; no process is left then.

        Raises:
            JobFailed: a process could not be started, or would not go.
        """
        try:
            verdict = self._supervise(interrupts)
            if verdict.ending is Ending.INTERRUPTED:
                self._ask_once_more()
            elif verdict.ending is not Ending.FAILED:
                self._wait_servers_left()
        finally:
            end_all(
                self._children.values(),
                GRACE_S,
                self._clock,
                hurry=lambda: interrupts.count > 1,
            )
            self._link.close()
        return self.ended(verdict)

    def _supervise(self, interrupts: Interrupts) -> Verdict:
        decisions = self._supervision.apply(None, self._clock.now_s())
        while True:
            verdict = self._carry_out(decisions)
            if verdict is not None:
                return verdict
            if self._is_told_to_end:  # is the first time: Ctrl-C is once more, SIGTERM not
                interrupts.count = max(interrupts.count, 1)
            if interrupts.count > 1:
                return Verdict(Ending.INTERRUPTED, "interrupted")
            decisions = self._interrupted(interrupts)
            held_up, self._held_up = self._held_up, []
            wait_s = AGAIN_S if held_up else REPORT_EVERY_S
            decisions += [*held_up, *self._wait_exits(wait_s)]
            if not held_up or self._report_by.is_over():
                decisions += self._report()

    def _interrupted(self, interrupts: Interrupts) -> list[Decision]:
        if not interrupts.count or self._is_ending:
            return []
        self._is_ending = True
        self._held_up = [s for s in self._held_up if role_kind(s.role) != "trainer"]
        trouble = None if self._status is None else self._status.trouble
        is_full = trouble is not None and trouble.kind == "journal"
        self._show.say(
            NOT_SAVED
            if is_full
            else f"interrupted: trainers leave (within {TRAINERS_LEAVE_S:g} s), then a "
            f"checkpoint is taken (within {SAVE_S:g} s); once more, and all ends at once"
        )
        return self._supervision.apply(RunInterrupted(), self._clock.now_s())

    def _carry_out(self, decisions: Sequence[Decision]) -> Verdict | None:
        """Do what was decided, and what follows from it; a verdict ends the job."""
        left = deque(decisions)
        while left:
            decision = left.popleft()
            if isinstance(decision, Start):
                left.extend(self._start(decision))
            elif isinstance(decision, Kill):
                self._show.say(f"killing {decision.role}: {decision.reason}")
                child = self._children.get(decision.role)
                if child is not None:
                    self._killed[child.role] = decision.reason
                    child.signal(signal.SIGKILL)
            elif isinstance(decision, Retire):
                self._show.say(f"{decision.role} is told to leave: {decision.reason}")
                if decision.role in self._children:
                    self._children[decision.role].tell_to_leave()
            elif isinstance(decision, EndInterrupted):
                return Verdict(Ending.INTERRUPTED, decision.reason)
            elif isinstance(decision, GiveUp):
                cause, role = self._last_cause(decision)
                return Verdict(Ending.FAILED, cause, decision.is_by_disk, role)
            else:
                assert isinstance(decision, Finish)
                return decide_ending(decision.status)
        return None

    def _start(self, start: Start) -> list[Decision]:
        with suppress(OSError):  # a disk that is read-only now holds no new one
            self._job.failure(start.role).unlink()
        child = self._start_role(start)
        if child is None:
            self._held_up.append(start._replace(is_elsewhere=False))
            return []
        if isinstance(child, NoRoom):
            return self._supervision.apply(child, self._clock.now_s())
        self._children[start.role] = child
        started = Started(start.role, child.pid)
        return self._supervision.apply(started, self._clock.now_s())

    def _wait_exits(self, timeout_s: float) -> list[Decision]:
        decisions: list[Decision] = []
        lost: dict[str, list[Exited]] = {}  # {host: what it had}
        for child in wait_any(self._children.values(), timeout_s):
            status = child.reap()
            del self._children[child.role]
            words = self._last_words[child.role] = child.last_lines()
            killed = self._killed.pop(child.role, None)
            is_ours = killed is not None and status == -signal.SIGKILL
            exited = Exited(child.role, child.pid, status, is_crash(status))
            self._link.note_exit(exited)
            if child.lost_with:
                lost.setdefault(child.lost_with, []).append(exited)
                continue
            happening = self._happened(exited, words)
            if status != 0 and not is_ours:
                self._show.say(self._told(happening, words))
            decisions += self._supervision.apply(happening, self._clock.now_s())
        for host, exits in lost.items():
            gone = HostLost(host, tuple(exits))
            decisions += self._supervision.apply(gone, self._clock.now_s())
        return decisions

    def _happened(self, exited: Exited, words: Sequence[str]) -> Exited | ScriptFailed:
        """An exit, with what the script has told of it if it was its doing."""
        is_scripts = role_kind(exited.role) == "trainer" and exited.code > 0
        if not is_scripts or exited.code == PREEMPTED_EXIT_CODE:
            return exited
        failure = take_failure(self._job.failure(exited.role))
        error = "" if failure is None else failure.text
        return ScriptFailed(exited, failure, explain_exit(exited.code, words, error))

    def _told(self, ended: Exited | ScriptFailed, words: Sequence[str]) -> str:
        """An exit in a line; the whole of an error is in the log that it names."""
        if isinstance(ended, Exited):
            return f"{ended.role} ended with {explain_exit(ended.code, words)}"
        role = ended.exited.role
        log = self._job.log(role).relative_to(self._job.path)
        return f"{role} ended with {ended.said} ({log})"

    def _report(self) -> list[Decision]:
        self._report_by = Deadline(self._clock, REPORT_EVERY_S)
        orders = self._link.call_report(
            ANSWER_S, saving=self._supervision.is_saving, interrupted=self._is_ending
        )
        self._is_answered = orders is not None
        now = self._clock.now_s()
        if orders is None:
            self._waits.pauses(_AWAY, self._clock.now_s())
            self._waits.look()
            child = self._children.get(COORDINATOR)
            signs = None if child is None else signs_of_life(child.pid)
            return self._supervision.apply(CoordinatorSilent(signs), now)
        self._waits.rests(self._clock.now_s(), is_over=True)
        status = orders if isinstance(orders, JobStatus) else orders.status
        self._status = status
        self._time.note(status, now)
        for said in self._troubles.note(status.trouble, now):
            self._show.say(said)
        if isinstance(orders, LauncherOrders):
            self._is_told_to_end = self._is_told_to_end or orders.is_interrupted
        self._show.show(status, sum(self._supervision.restarts.values()), now)
        return self._supervision.apply(orders, now)

    def _ask_once_more(self) -> None:
        if not self._is_answered:
            return  # whoever interrupts does not want to wait for nothing
        orders = self._link.call_report(ANSWER_S)
        if orders is not None:
            self._status = orders if isinstance(orders, JobStatus) else orders.status
            self._time.note(self._status, self._clock.now_s())

    def _wait_servers_left(self) -> None:
        """Tell the coordinator that the job is over; its servers leave by themselves."""
        self._link.call_report(ANSWER_S, finishing=True)
        deadline = Deadline(self._clock, LEAVE_S)
        while not deadline.is_over():
            servers = [c for role, c in self._children.items() if role.startswith("server")]
            if not servers:
                return
            for child in wait_any(servers, deadline.remaining_s()):
                child.reap()
                del self._children[child.role]

    def _last_cause(self, give_up: GiveUp) -> tuple[str, str]:
        """Why the job has failed, with the end of the log that tells more, and whose."""
        words = self._last_words.get(give_up.role or "", [])
        reason = give_up.reason
        if self._status is not None and self._status.total_records:
            reason = f"{reason}; {where_it_stands(self._status)}"
        if give_up.role is None or not words:
            return reason, ""
        log = self._job.log(give_up.role)
        return "\n".join([f"{reason}; the end of {log}:", *words]), give_up.role
