"""A job as processes of this machine: what ``paceline run`` does.

::

    claim the folder and the place of its cuts -> private sockets -> fork server, launcher
    -> all gone -> summary

Waits: for the job to end. The main thread, or one that outlives the job.
"""

import contextlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.config import JobConfig
from paceline.errors import JobFailed
from paceline.ids import COORDINATOR, LAUNCHER, role_kind, server_id, trainer_id
from paceline.launch.job import (
    LOOPBACK,
    THREADS,
    JobDir,
    Place,
    RunFile,
    Transport,
    UserScript,
    Wires,
    claimed,
    hold_addresses,
    hold_sockets,
    remove_secret,
    resume_command,
    role_command,
    trainer_threads,
    with_failpoints,
    write_secret,
)
from paceline.launch.processes import Child, ForkServer, Interrupts
from paceline.launch.supervise import CoordinatorLink, Ended, Launcher, Supervision
from paceline.store.journal import wait_until_free
from paceline.timing import Clock, Deadline
from paceline.transport.handshake import Secret
from paceline.transport.memory import may_share_memory
from paceline.watch.progress import Show
from paceline.watch.summary import Ending, Restarts, Summary, Verdict, summarize

LAST_RUN_S = 10.0  # the coordinator of a killed launcher closes within 4 s


class LocalRun(NamedTuple):
    """What to run.

    Args:
        config: the job.
        script: what trainers run.
        job: its folder, yet unclaimed; or that of the job that goes on.
        is_resumed: go on where the folder's last run ended, with the numbers of trainers
            and servers of ``config``.
    """

    config: JobConfig
    script: UserScript
    job: JobDir
    is_resumed: bool = False


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
    transport: Transport = "unix",
    host: str = LOOPBACK,
) -> RunResult:
    """Run a script as a job on this machine, to its end.

    Afterwards no process and no socket of the job is left, and its folder holds
    ``summary.json``; also when a process could not be started, or would not go: that is
    how the job failed.

    Args:
        run: the job.
        show: what the user sees.
        clock: the time.
        environment: of its processes.
        forks: a fork server that outlives the job; None: the job has its own.
        transport: how its processes talk. Over TCP they listen at ports of ``host``, and
            prove the run's secret to each other, which they get by environment.
        host: an IP address of this machine. Beyond loopback nothing is encrypted, and
            the logs warn of it.

    Raises:
        UsageError: the folder or the place of the cuts belongs to another job, there is
            none to go on with; the host is none of this machine's; or
            ``PACELINE_SHARED_MEMORY`` is neither on nor off.
        StoreFull: the job folder cannot be written, from the start.
        StoreError: the place of the cuts is not there, or cannot be written.
        JobFailed: the job's own fork server was killed and would not go.
    """
    config, script, job, is_resumed = run
    may_share_memory(environment)  # what it cannot read is told before anything starts
    # Outermost: whoever interrupts, and when, gets an orderly end and a summary.
    with Interrupts() as interrupts, contextlib.ExitStack() as stack:
        stack.enter_context(job.hold())
        sockets = stack.enter_context(hold_sockets())
        if is_resumed:
            wait_until_free(job.journal, Deadline(clock, LAST_RUN_S))
        config = stack.enter_context(
            claimed(job, config, script.named, show.say, is_resumed=is_resumed)
        )
        base = with_failpoints(environment, job.failpoints)
        if base != environment:
            job.failpoints.mkdir(exist_ok=True)
        show.say(f"paceline: {describe_run(run, Path.cwd())}")
        servers = [server_id(n) for n in range(config.servers)]
        addresses = stack.enter_context(
            hold_addresses(transport, sockets, [COORDINATOR, *servers], host)
        )
        coordinator = addresses[COORDINATOR]
        secret = _open_secret(stack, job) if transport == "tcp" else None
        threads = trainer_threads(
            len(os.sched_getaffinity(0)), config.max_trainers * config.ranks_per_trainer
        )
        launcher_pid = os.getpid()
        job.write_run(RunFile(config.run, coordinator, str(sockets), launcher_pid))

        def start(role: str) -> Child | None:
            place = Place(
                config.run,
                role,
                job.path,
                coordinator,
                sockets,
                launcher_pid,
                secret,
                addresses.get(role, ""),
                config.ranks_per_trainer if role_kind(role) == "trainer" else 1,
            )
            command = role_command(place, script, base, threads)
            assert forks is not None
            return forks.start(role, command, job.log(role))

        supervision = Supervision(
            servers,
            [trainer_id(n) for n in range(config.max_trainers)],
            config.timeout_s,
            config.disk_wait_s,
        )
        wires = Wires(config.run, LAUNCHER, clock, connect_s=0.5, secret=secret)
        link = CoordinatorLink(wires.to_coordinator_as_launcher(coordinator))
        started_s = clock.now_s()
        launcher = Launcher(supervision, start, job, link, show, clock)
        try:
            if forks is None:
                importing = {**base, THREADS: str(threads)}
                forks = ForkServer(importing, job.log("forkserver"), clock)
                stack.callback(forks.close)
            ended = launcher.wait_ended(interrupts)
        except JobFailed as error:
            ended = launcher.ended(Verdict(Ending.FAILED, str(error)))
        result = _sum_up(ended, supervision, clock.now_s() - started_s, job)
        if result.verdict.ending is Ending.INTERRUPTED or result.verdict.may_resume:
            command = resume_command(
                job.path, script.named, script.arguments, config.plugins
            )
            return result._replace(said=(*result.said, f"go on with: {command}"))
        return result


def describe_run(run: LocalRun, here: Path) -> str:
    """A run in a line, as it begins: where it lies, and how many are to do what.

    Args:
        run: what is run.
        here: the working folder; a job folder below it is named as seen from it.
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
        str(config.pace),
        *([f"checkpoints in {config.checkpoints}"] if config.checkpoints else []),
    ]
    return ", ".join(pieces)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _open_secret(stack: contextlib.ExitStack, job: JobDir) -> Secret:
    """A secret for this run, also in the folder for as long as it runs."""
    secret = Secret.fresh()
    write_secret(job.secret, secret)
    stack.callback(remove_secret, job.secret)
    return secret


def _sum_up(
    ended: Ended, supervision: Supervision, seconds: float, job: JobDir
) -> RunResult:
    restarts = Restarts(**supervision.restarts)
    summary = summarize(
        ended.status, ended.verdict, restarts, seconds, str(job.path), ended.time
    )
    failures = supervision.failures.told()
    said = [f"{told}; the logs in {job.logs} tell more" for told in failures]
    if ended.status is not None and ended.status.events_lost:
        lost = f"{ended.status.events_lost:,} events were not written"
        said.append(f"{lost}: there was no space in {job.path}")
    if (unwritten := job.write_end(ended.status, summary.as_dict())) is not None:
        said.append(unwritten)
    return RunResult(summary, ended.verdict, tuple(said))
