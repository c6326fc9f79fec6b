"""``paceline host``: the agent of one machine, which has there what the launcher wishes.

::

    join -> the job's config and script -> a folder of its own -> fork server
    report every 0.2 s what runs and what has ended -> start, tell, kill as is wished
    the job is over, it is lost to the job, or nothing is heard -> kill all, go

It decides nothing but to end: a host that has heard nothing for ``orphan_after_s`` is alone
in the world. Its processes stay as they are until then: whether they still are of the job,
the coordinator knows, and tells them.

Waits: for the launcher, with deadlines; for processes. The main thread.
"""

import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import final

from msgspec import structs

from paceline.errors import (
    Interrupted,
    PacelineError,
    TransportError,
    UsageError,
)
from paceline.ids import HOST, role_kind
from paceline.launch.guests import JobOver
from paceline.launch.hosts.coming import HostPlan, RunGone, wait_joined
from paceline.launch.hosts.examined import Examined
from paceline.launch.hosts.logs import HostLogs
from paceline.launch.hosts.probing import Echoes
from paceline.launch.hosts.sameness import check_same
from paceline.launch.job import (
    RUNS,
    THREADS,
    JobDir,
    Place,
    UserScript,
    Wires,
    file_of,
    fresh_job_dir,
    hold_sockets,
    role_command,
    trainer_threads,
    way_of,
)
from paceline.launch.processes import ForkServer, Interrupts, Watched, end_all, wait_any
from paceline.messages.hosts import (
    ExamJoined,
    HostExit,
    HostJoined,
    HostOrders,
    HostProcess,
    HostReport,
    JoinHost,
)
from paceline.messages.shared import Refusal
from paceline.timing import Clock, Deadline, wall_time_s
from paceline.transport.patience import PatientConnection
from paceline.transport.streams import hold_port

REPORT_EVERY_S = 0.2
AGAIN_S = 0.02  # a process could not be started yet
LAST_LOGS_S = 2.0  # less than the launcher waits for hosts at its end
ANSWER_S = 2.0
GRACE_S = 2.5
_INTERRUPTED = "the run was interrupted, and the job goes on with another one"


def wait_host(
    plan: HostPlan,
    say: Callable[[str], None],
    clock: Clock,
    environment: Mapping[str, str] = os.environ,
) -> JobOver:
    """Be a host of a job until it is over; no process of it is left then. How it ended.

    Raises:
        UsageError: this machine cannot take part: it is not reached, has another script,
            finds other checkpoints, or what answers is no launcher with this secret.
        StoreError: the place of the checkpoints cannot be read or written from here.
        RunGone: it was lost to the run, or heard nothing for too long; or the run was
            interrupted.
        JobFailed: it could not start or end a process, or nobody let it in.
        Interrupted: it was told to stop.
    """
    with Interrupts() as interrupts, contextlib.ExitStack() as stack:
        way = way_of(is_plain=plan.is_plain)
        wires = Wires("", HOST, clock, secret=plan.secret, way=way)
        token = uuid.uuid4().hex
        at_own = wires._replace(run=token)
        listener = stack.enter_context(at_own.listen_as_host(str(plan.own), Echoes()))
        link = PatientConnection(wires.to_launcher(str(plan.launcher)))
        stack.callback(link.close)
        who = (token, plan.name, listener.address, plan.cores)
        message = JoinHost(*who, *plan.capacity)
        joined = wait_joined(plan, link, message, interrupts, say, clock)
        if isinstance(joined, ExamJoined):
            say(f"joined as {joined.host}: there is no job, and this machine is examined")
            examined = Examined(joined, message, wires, plan.orphan_after_s)
            return examined.wait_over(link, interrupts)
        run, script = joined.config.run, joined.script.path
        say(f"joined as {joined.host}: run {run}, started with {script}")
        report = HostReport(host=joined.host, token=message.token, running={}, ended={})
        try:
            check_same(joined, say)
            job = stack.enter_context(_folder(plan, joined))
            say(f"logs of its processes lie in {job.logs}")
            sockets = stack.enter_context(hold_sockets())
            base = {**environment, THREADS: environment.get(THREADS, "1")}
            forks = ForkServer(base, job.log("forkserver"), clock, say=say)
            stack.callback(forks.close)
        except PacelineError as error:
            _part(link, report, f"{plan.name} cannot take part: {error}")
            raise
        agent = _Agent(plan, joined, job, sockets, forks, clock, environment)
        return agent.wait_over(link, report, interrupts)


@contextlib.contextmanager
def _folder(plan: HostPlan, joined: HostJoined) -> Iterator[JobDir]:
    """Hold a folder for what the host's processes read and write.

    Raises:
        UsageError: that of the plan is in use, or holds what another host has left.
    """
    script = Path(file_of(_script(joined)))
    named = f"{script.stem}-{joined.host}{script.suffix}"
    job = JobDir(plan.folder or fresh_job_dir(RUNS, named, wall_time_s()))
    with job.hold():
        if job.config.exists():
            raise UsageError(
                f"{job.path} holds what another host, or a job, has left: name another "
                "folder with --folder, or leave the option out"
            )
        job.claim(joined.config, joined.script.path)
        yield job


def _part(link: PatientConnection, report: HostReport, reason: str) -> None:
    with contextlib.suppress(TransportError):  # it will be missed anyway
        link.call(structs.replace(report, leaves=reason), ANSWER_S)


def _script(joined: HostJoined) -> UserScript:
    script = joined.script
    return UserScript(script.path, script.arguments, script.is_module)


@final
class _Agent:
    """The processes of a host."""

    def __init__(
        self,
        plan: HostPlan,
        joined: HostJoined,
        job: JobDir,
        sockets: Path,
        forks: ForkServer,
        clock: Clock,
        environment: Mapping[str, str],
    ) -> None:
        self._plan, self._joined, self._job = plan, joined, job
        self._sockets, self._forks, self._clock = sockets, forks, clock
        self._environment = environment
        self._script = _script(joined)
        self._wished: dict[int, HostProcess] = {}
        self._children: dict[int, Watched] = {}
        self._ended: dict[int, HostExit] = {}
        self._told: dict[int, HostProcess] = {}  # {number: as it was told last}
        self._ports = contextlib.ExitStack()
        self._addresses: dict[str, str] = {}  # {server: where it listens}
        self._logs = HostLogs(job.logs, joined.host)

    def wait_over(
        self, link: PatientConnection, report: HostReport, interrupts: Interrupts
    ) -> JobOver:
        """Report and do as is wished, until the job is over.

        Raises:
            UsageError: no port is free for a role.
            RunGone, JobFailed, Interrupted: as of `wait_host`.
        """
        silence = Deadline(self._clock, self._plan.orphan_after_s)
        grace_s = GRACE_S
        notice = _Notice(self._clock, self._plan.stay_s)
        is_heard = True
        try:
            while not notice.is_due(interrupts.count, is_heard=is_heard):
                now = self._now(report)
                report_by = Deadline(self._clock, REPORT_EVERY_S)
                answer = self._ask(link, now)
                is_heard = answer is not None
                if isinstance(answer, Refusal):
                    grace_s = 0.0  # others have their places: they would only be in the way
                    raise RunGone(answer.text)
                is_behind = False  # with its logs, and catching up
                if isinstance(answer, HostOrders):
                    silence = Deadline(self._clock, self._plan.orphan_after_s)
                    is_behind = self._logs.answered(answer.logs) and now.has_more
                    if answer.is_over:
                        self._tell_rest(link, now)
                        if answer.goes_on:
                            raise RunGone(_INTERRUPTED, is_interrupted=True)
                        how = f": {answer.ending}" if answer.ending else ""
                        return JobOver(f"the job is over{how}", answer.status)
                    self._wished = answer.processes
                elif silence.is_over():
                    raise RunGone(
                        f"nothing was heard from the launcher at {self._plan.launcher} for "
                        f"{self._plan.orphan_after_s:g} s (--orphan-after): all ends here"
                    )
                is_due = is_behind
                while not is_due:
                    try:
                        is_complete, has_news = self._carry_out()
                    except PacelineError as error:
                        _part(link, now, f"{self._plan.name} cannot take part: {error}")
                        raise
                    has_ended = self._reap(
                        report_by.remaining_s() if is_complete else AGAIN_S
                    )
                    is_due = is_complete or has_news or has_ended or report_by.is_over()
            _part(link, self._now(report), f"{self._plan.name} was told to stop")
            raise Interrupted("this machine was told to stop; the job goes on without it")
        finally:
            end_all(self._children.values(), grace_s, self._clock)
            self._ports.close()

    def _now(self, report: HostReport) -> HostReport:
        running = {n: child.pid for n, child in self._children.items()}
        logs, has_more = self._logs.news()
        guests = self._plan.guests
        return structs.replace(
            report,
            running=running,
            ended=dict(self._ended),
            logs=logs,
            has_more=has_more,
            trainers=None if guests is None else guests.trainers,
        )

    def _tell_rest(self, link: PatientConnection, now: HostReport) -> None:
        """Tell what the launcher lacks of the logs, which waits for that."""
        deadline = Deadline(self._clock, LAST_LOGS_S)
        while now.has_more:
            now = self._now(now)
            answer = self._ask(link, now)
            is_taken = isinstance(answer, HostOrders) and self._logs.answered(answer.logs)
            if not is_taken or deadline.is_over():
                self._ask(link, structs.replace(now, logs=(), has_more=False))
                return

    def _ask(
        self, link: PatientConnection, report: HostReport
    ) -> HostOrders | Refusal | None:
        try:
            answer = link.call(report, ANSWER_S)
        except TransportError:
            return None
        assert isinstance(answer, HostOrders | Refusal)
        return answer

    def _carry_out(self) -> tuple[bool, bool]:
        """Have what is wished for: whether all of it is there, and whether some is new."""
        self._ended = {n: end for n, end in self._ended.items() if n in self._wished}
        for number, child in self._children.items():
            wished = self._wished.get(number)
            if wished is None:
                child.signal(signal.SIGKILL)
            elif wished != self._told.get(number):
                self._told[number] = wished
                _tell(child, wished)
        is_complete, has_news = True, False
        there = {child.role for child in self._children.values()}
        for number, wished in self._wished.items():
            if number in self._children or number in self._ended:
                continue
            # Who is killed for it must be gone first: it has the address.
            started = None if wished.role in there else self._start(wished.role)
            if started is None:
                is_complete = False
                continue
            self._children[number], has_news = started, True
            self._told[number] = HostProcess(wished.role, "run")
        return is_complete, has_news

    def _start(self, role: str) -> Watched | None:
        with contextlib.suppress(OSError):
            self._job.failure(role).unlink()
        config = self._joined.config
        is_trainer = role_kind(role) == "trainer"
        place = Place(
            config.run,
            role,
            self._job.path,
            self._joined.coordinator,
            self._sockets,
            os.getpid(),
            self._plan.secret,
            self._address(role),
            config.ranks_per_trainer if is_trainer else 1,
            self._plan.name,
            self._plan.is_plain,
        )
        if is_trainer and self._plan.guests is not None:
            return self._plan.guests.start(role, place.variables())
        trainers = [w for w in self._wished.values() if role_kind(w.role) == "trainer"]
        processes = max(1, len(trainers)) * config.ranks_per_trainer
        threads = trainer_threads(self._plan.cores, processes)
        command = role_command(place, self._script, self._environment, threads)
        return self._forks.start(role, command, self._job.log(role))

    def _address(self, role: str) -> str:
        """Where a role listens: a server at a port that is kept, a trainer at a free one.

        Raises:
            UsageError: none is.
        """
        if role_kind(role) == "trainer":
            return str(self._plan.own)
        if role not in self._addresses:
            held = self._ports.enter_context(hold_port(self._plan.own))
            self._addresses[role] = str(held)
        return self._addresses[role]

    def _reap(self, timeout_s: float) -> bool:
        """Take leave of who has ended within some time: whether somebody has."""
        by_child = {child: number for number, child in self._children.items()}
        for child in wait_any(by_child, timeout_s):
            number = by_child[child]
            status = child.reap()
            del self._children[number]
            self._told.pop(number, None)
            failure = b""
            with contextlib.suppress(OSError):
                failure = self._job.failure(child.role).read_bytes()
            lines = tuple(child.last_lines())
            self._ended[number] = HostExit(child.pid, status, lines, failure)
        return len(by_child) > len(self._children)


@final
class _Notice:
    """When a host leaves that was told to stop: a job may end by itself before.

    An engine that ends a whole job tells each machine, and the launcher's as well. That
    one takes a last checkpoint, for which it needs the servers of all.
    """

    def __init__(self, clock: Clock, stay_s: float) -> None:
        self._clock, self._stay_s = clock, stay_s
        self._until: Deadline | None = None

    def is_due(self, count: int, *, is_heard: bool) -> bool:
        """Whether to leave, told so often; without a launcher nothing is waited for."""
        if not count:
            return False
        self._until = self._until or Deadline(self._clock, self._stay_s)
        return count > 1 or not is_heard or self._until.is_over()


def _tell(child: Watched, wished: HostProcess) -> None:
    if wished.wish == "leave":
        child.tell_to_leave()
    elif wished.wish in {"end", "kill"}:
        is_kill = wished.wish == "kill"
        child.signal(signal.SIGKILL if is_kill else signal.SIGTERM)
