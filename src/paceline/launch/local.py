"""A job as processes of this machine: what ``paceline run`` does.

::

    claim the folder and the place of its cuts -> private sockets -> fork server, launcher
    -> all gone -> summary

Waits: for the job to end. The main thread, or one that outlives the job.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paceline.config import JobConfig
from paceline.errors import JobFailed
from paceline.ids import COORDINATOR, LAUNCHER, role_kind, server_id, trainer_id
from paceline.launch.hosts import open_door, require_door
from paceline.launch.job import (
    LOOPBACK,
    THREADS,
    Command,
    JobDir,
    Place,
    RunFile,
    Transport,
    UserScript,
    Wires,
    claimed,
    from_here,
    hold_addresses,
    hold_sockets,
    keep_function,
    reached,
    resume_command,
    role_command,
    trainer_threads,
    way_of,
    with_failpoints,
    write_secret,
)
from paceline.launch.processes import ForkServer, Interrupts, Watched
from paceline.launch.supervise import (
    CoordinatorLink,
    Ended,
    Launcher,
    NoRoom,
    Start,
    Supervision,
)
from paceline.machine import machine_name, num_cores
from paceline.store.journal import wait_until_free
from paceline.timing import Clock, Deadline
from paceline.transport.address import TcpListening
from paceline.transport.handshake import Secret
from paceline.transport.shared_memory import may_share_memory
from paceline.watch.progress import Show
from paceline.watch.summary import Ending, Restarts, Summary, Verdict, summarize

if TYPE_CHECKING:
    from paceline.launch.guests import GuestHall
    from paceline.launch.hosts import HostsDoor, Listening

LAST_RUN_S = 10.0  # the coordinator of a killed launcher closes within 4 s


class LocalRun(NamedTuple):
    """What to run: a job in a folder that is yet unclaimed, or that goes on.

    If it does, then with the numbers of trainers and servers of ``config``.
    """

    config: JobConfig
    script: UserScript
    job: JobDir
    is_resumed: bool = False


class Reach(NamedTuple):
    """How the processes of a run reach each other.

    Over TCP they listen at ports of ``host``, an IP address of this machine; with
    ``listening``, other machines are let in, and it is that address. With ``guests``, those
    are the trainers, and none is started.
    """

    transport: Transport = "unix"
    host: str = LOOPBACK
    listening: "Listening | None" = None
    guests: "GuestHall | None" = None

    def options(self) -> list[str]:
        """As the command line lets other machines into the next run."""
        return [] if self.listening is None else self.listening.options()


class RunResult(NamedTuple):
    """How a run ended; ``said``: what else is to be told of it."""

    summary: Summary
    verdict: Verdict
    said: tuple[str, ...] = ()


def fresh_run_id() -> str:
    """An id that no other run has."""
    return uuid.uuid4().hex


def wait_local_run(
    run: LocalRun,
    show: Show,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
    forks: ForkServer | None = None,
    reach: Reach = Reach(),  # noqa: B008  (immutable)
) -> RunResult:
    """Run a script as a job on this machine, to its end.

    Afterwards no process and no socket of the job is left, and its folder holds
    ``summary.json``; also when a process could not be started, or would not go: that is
    how the job failed. Without a fork server that outlives the job it has its own.

    Over TCP processes prove the run's secret to each other, which they get by environment;
    beyond loopback within TLS.

    Raises:
        UsageError: the folder or the place of the cuts belongs to another job, there is
            none to go on with; the host is none of this machine's, its port is taken, TLS
            is not installed; or ``PACELINE_SHARED_MEMORY`` is neither on nor off.
        StoreFull: the job folder cannot be written, from the start.
        StoreError: the place of the cuts is not there, or cannot be written.
        JobFailed: the job's own fork server was killed and would not go.
    """
    if reach.listening is not None:
        require_door(reach.listening, run.config)
    may_share_memory(environment)  # what it cannot read is told before anything starts
    # Outermost: whoever interrupts, and when, gets an orderly end and a summary.
    with Interrupts() as interrupts, contextlib.ExitStack() as stack:
        run, sockets = _claim(stack, run, show, clock, reach)
        ground = _open_ground(stack, run, sockets, environment, reach)
        supervision = ground.supervision()
        door: HostsDoor | None = None

        def at_home(wanted: Start) -> Watched | NoRoom | None:
            assert forks is not None
            role, most = wanted.role, run.config.max_trainers
            if reach.guests is not None and role_kind(role) == "trainer":
                return ground.seat(reach.guests, role) if forks.has_started else None
            trainers = most if door is None else door.count_here(most)
            return forks.start(role, ground.command(role, trainers), run.job.log(role))

        start: Callable[[Start], Watched | NoRoom | None] = at_home
        if reach.listening is not None:
            door = ground.open_door(stack, reach, show.say, clock)
            start = partial(door.start, at_home=at_home)
        link, started_s = ground.link(clock, door), clock.now_s()
        launcher = Launcher(supervision, start, run.job, link, show, clock)
        try:
            if forks is None:
                forks = ground.fork_server(clock, show.say)
                stack.callback(forks.close)
            ended = launcher.wait_ended(interrupts)
        except JobFailed as error:
            ended = launcher.ended(Verdict(Ending.FAILED, str(error)))
        if door is not None:
            door.close(ended.verdict)  # last logs come
        return _sum_up(ended, supervision, clock.now_s() - started_s, run, reach)


class _Ground(NamedTuple):
    """What the processes of a run stand on, until all are gone."""

    run: LocalRun
    sockets: Path
    environment: Mapping[str, str]
    addresses: Mapping[str, str]  # {coordinator or server: where it listens}
    secret: Secret | None
    has_hosts: bool  # others may join
    is_plain: bool  # without TLS
    door: str  # where a trainer may listen; empty: it finds a place

    def open_door(
        self,
        stack: contextlib.ExitStack,
        reach: Reach,
        say: Callable[[str], None],
        clock: Clock,
    ) -> "HostsDoor":
        """Let other machines in."""
        assert reach.listening is not None
        listening = reach.listening._replace(guests=reach.guests)
        config, script, job, _ = self.run
        coordinator, secret = reached(self.addresses[COORDINATOR]), self.secret
        assert secret is not None, "hosts come over TCP"
        what = (job, config, script)
        return open_door(stack, listening, what, coordinator, secret, say, clock)

    def threads(self, trainers: int) -> int:
        """Of a trainer, where so many are on this machine."""
        cores = num_cores()
        return trainer_threads(cores, trainers * self.run.config.ranks_per_trainer)

    def command(self, role: str, trainers: int) -> Command:
        """What the process of a role runs, where so many trainers are on this machine."""
        threads = self.threads(trainers)
        return role_command(self.place(role), self.run.script, self.environment, threads)

    def seat(self, guests: "GuestHall", role: str) -> Watched | NoRoom:
        """Let a guest be a trainer, if one waits."""
        return guests.start(role, self.place(role).variables()) or NoRoom(role)

    def place(self, role: str) -> Place:
        """Where the process of a role stands."""
        config, _, job, _ = self.run
        return Place(
            config.run,
            role,
            job.path,
            from_here(self.addresses[COORDINATOR]),
            self.sockets,
            os.getpid(),
            self.secret,
            self.addresses.get(role, self.door),
            config.ranks_per_trainer if role_kind(role) == "trainer" else 1,
            machine_name() if self.has_hosts else "",
            self.is_plain,
        )

    def fork_server(self, clock: Clock, say: Callable[[str], None]) -> ForkServer:
        """Begin to import what all processes need, to fork them from."""
        threads = self.threads(self.run.config.max_trainers)
        environment = {**self.environment, THREADS: str(threads)}
        log = self.run.job.log("forkserver")
        return ForkServer(environment, log, clock, say=say)

    def link(self, clock: Clock, door: "HostsDoor | None") -> CoordinatorLink:
        """The launcher's way to the coordinator."""
        run = self.run.config.run
        way = way_of(is_plain=self.is_plain)
        wires = Wires(run, LAUNCHER, clock, connect_s=0.5, secret=self.secret, way=way)
        address = from_here(self.addresses[COORDINATOR])
        no_room = (lambda: "") if door is None else door.no_room
        return CoordinatorLink(wires.to_coordinator_as_launcher(address), no_room)

    def supervision(self) -> Supervision:
        """Of its processes, none of which has been started."""
        config = self.run.config
        trainers = [trainer_id(n) for n in range(config.max_trainers)]
        return Supervision(_servers(config), trainers, config.timeout_s, config.disk_wait_s)


def _claim(
    stack: contextlib.ExitStack, run: LocalRun, show: Show, clock: Clock, reach: Reach
) -> tuple[LocalRun, Path]:
    """Hold the job's folder and a folder for sockets; the job as it is from now on."""
    config, script, job, is_resumed = run
    stack.enter_context(job.hold())
    sockets = stack.enter_context(hold_sockets())
    if is_resumed:
        wait_until_free(job.journal, Deadline(clock, LAST_RUN_S))
    config = stack.enter_context(
        claimed(
            job,
            config,
            script.named,
            show.say,
            is_resumed=is_resumed,
            arguments=() if script.function else script.arguments,
            options=reach.options(),
        )
    )
    if script.content:
        keep_function(sockets, script.content)
    show.say(f"paceline: {describe_run(run, Path.cwd())}")
    return run._replace(config=config), sockets


def _open_ground(
    stack: contextlib.ExitStack,
    run: LocalRun,
    sockets: Path,
    environment: Mapping[str, str],
    reach: Reach,
) -> _Ground:
    """Hold addresses; from now on the folder says that the job runs."""
    config, job = run.config, run.job
    base = with_failpoints(environment, job.failpoints)
    if base != environment:
        job.failpoints.mkdir(exist_ok=True)
    transport, host, listening, _ = reach
    own = TcpListening(host, host)
    secret, is_plain = None, listening is not None and listening.is_plain
    if listening is not None:
        transport, own, secret = "tcp", listening.own, listening.secret
    roles = [COORDINATOR, *_servers(config)]
    addresses = stack.enter_context(hold_addresses(transport, sockets, roles, own))
    if transport == "tcp":
        secret = secret or Secret.fresh()
        write_secret(job.secret, secret)
        stack.callback(job.forget_secret)
    coordinator = from_here(addresses[COORDINATOR])
    run_file = RunFile(config.run, coordinator, str(sockets), os.getpid(), is_plain)
    job.write_run(run_file)
    has_hosts = listening is not None
    door = str(own) if transport == "tcp" else ""
    return _Ground(run, sockets, base, addresses, secret, has_hosts, is_plain, door)


def _servers(config: JobConfig) -> list[str]:
    return [server_id(n) for n in range(config.servers)]


def describe_run(run: LocalRun, here: Path) -> str:
    """A run in a line, as it begins: where it lies, and how many are to do what.

    A job folder below the working folder ``here`` is named as seen from it. Of a resumed
    job the coordinator alone knows the pace, which may have been changed.
    """
    config, path = run.config, run.job.path
    folder = path.relative_to(here) if path.is_relative_to(here) else path
    least, most = config.trainers, config.max_trainers
    trainers = f"{least} to {most} trainers" if most > least else _count(least, "trainer")
    if config.ranks_per_trainer > 1:
        trainers += f" of {config.ranks_per_trainer} processes"
    pieces = [
        f"job folder {folder}",
        *(["resumed"] if run.is_resumed else []),
        trainers,
        _count(config.servers, "server"),
        *([] if run.is_resumed else [str(config.pace)]),
        *([f"checkpoints in {config.checkpoints}"] if config.checkpoints else []),
    ]
    return ", ".join(pieces)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _sum_up(
    ended: Ended, supervision: Supervision, seconds: float, run: LocalRun, reach: Reach
) -> RunResult:
    config, script, job, _ = run
    restarts = Restarts(**supervision.restarts)
    summary = summarize(
        ended.status, ended.verdict, restarts, seconds, str(job.path), ended.time
    )
    failures = supervision.failures.told()
    failures.pop(ended.verdict.role, None)  # it is told whole
    said = [f"{told}; {job.log(role)} tells more" for role, told in failures.items()]
    if ended.status is not None and ended.status.events_lost:
        lost = f"{ended.status.events_lost:,} events were not written"
        said.append(f"{lost}: there was no space in {job.path}")
    if (unwritten := job.write_end(ended.status, summary.as_dict())) is not None:
        said.append(unwritten)
    verdict, status = ended.verdict, ended.status
    has_more = status is not None and status.records and not status.left_out
    is_unfinished = verdict.ending is Ending.FAILED and has_more
    may_resume = verdict.ending is Ending.INTERRUPTED or verdict.may_resume or is_unfinished
    if may_resume and not job.is_another():
        ran = script.named, script.arguments
        command = resume_command(job.path, *ran, config.plugins, reach.options())
        said.append(f"go on with: {command}")
    return RunResult(summary, ended.verdict, tuple(said))
