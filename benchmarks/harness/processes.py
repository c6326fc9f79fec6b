"""Processes of a benchmark: forked from one that has torch imported, or a peer's own.

Forks share the imported libraries, so a candidate does not pay for imports, and all of
them, plain loops too, keep freed memory as the processes of a job do (`KEPT_MEMORY`).

Waits: for processes, with a bound each.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from paceline.config import JobConfig, parse_pace
from paceline.launch.job.addresses import LOOPBACK, Transport
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.processes.forked import PRELOADED
from paceline.launch.processes.forkserver import ForkServer
from paceline.launch.processes.process import Child, wait_any
from paceline.timing import Deadline, SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Summary

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.05
GONE_S = 30.0  # from SIGKILL to its end
LAST_LINES = 15
IMPORT_S = 600.0  # as the fork server itself allows


@contextlib.contextmanager
def fork_server(
    log: Path, threads: int, preloaded: Sequence[str] = ()
) -> Iterator[ForkServer]:
    """A fork server for a whole benchmark, which imports some modules more than a job's."""
    # Scripts of a benchmark import each other; a script's own folder is all they would see.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": path}
    forks = ForkServer(environment, log, SystemClock(), (*PRELOADED, *preloaded))
    try:
        yield forks
    finally:
        forks.close()


def wait_started(forks: ForkServer, role: str, command: Command, log: Path) -> Child:
    """Start a process, as soon as there is something to fork from.

    Raises:
        TimeoutError: the imports took longer than `IMPORT_S`.
    """
    deadline = Deadline(SystemClock(), IMPORT_S)
    while (child := forks.start(role, command, log)) is None:
        if deadline.is_over():
            raise TimeoutError(f"{role}: nothing to fork from after {IMPORT_S:g} s")
        threading.Event().wait(POLL_S)
    return child


def wait_scripts(
    forks: ForkServer,
    script: Path,
    arguments: Sequence[tuple[str, ...]],
    changes: Mapping[str, str],
    log: Path,
    limit_s: float,
) -> None:
    """Run a script several times at once, each in a process of its own, to the last's end.

    Args:
        forks: where the processes come from.
        script: what they run.
        arguments: the command line of each.
        changes: of the environment.
        log: where their output goes, with the number of each behind the name.
        limit_s: how long all may take.

    Raises:
        RuntimeError: one failed or took longer, and none is left; the end of its output is
            in the message.
    """
    environment = {**os.environ, **changes}
    deadline = Deadline(SystemClock(), limit_s)
    left = [
        wait_started(
            forks,
            f"trainer-{number}",
            Command((str(script), *words), environment),
            log.with_name(f"{log.name}-{number}"),
        )
        for number, words in enumerate(arguments)
    ]
    failures: list[str] = []
    try:
        while left and not failures:
            ended = wait_any(left, deadline.remaining_s())
            if not ended:
                failures.append(f"{script.name}: not over after {limit_s:g} s")
            for child in ended:
                left.remove(child)
                if status := child.reap():
                    words = "\n".join(child.last_lines())
                    failures.append(f"{script.name} {child.role}: status {status}\n{words}")
    finally:
        for child in left:
            child.signal(signal.SIGKILL)
            wait_any([child], GONE_S)
            child.reap()
    if failures:
        raise RuntimeError("\n".join(failures))


def job_config(pace: str, trainers: int = 1, servers: int = 1, seed: int = 0) -> JobConfig:
    """A job that takes no cut while it is measured."""
    return JobConfig(
        run=fresh_run_id(),
        pace=parse_pace(pace),
        trainers=trainers,
        servers=servers,
        seed=seed,
        cut_every_s=0.0,
    )


def wait_job(
    forks: ForkServer,
    config: JobConfig,
    script: UserScript,
    changes: Mapping[str, str],
    folder: Path,
    transport: Transport = "unix",
    host: str = LOOPBACK,
) -> Summary:
    """Run a script as a job of this machine to its end, in a folder below ``folder``.

    Raises:
        RuntimeError: the job failed; the message says why.
    """
    job = JobDir(folder / "job")
    with (folder / "show").open("w") as output:
        result = wait_local_run(
            LocalRun(config, script, job),
            open_show(output),
            SystemClock(),
            environment={**os.environ, **changes},
            forks=forks,
            reach=Reach(transport, host),
        )
    if result.verdict.exit_code:
        raise RuntimeError(f"the job failed: {result.verdict}")
    return result.summary


def wait_modules(
    python: Path,
    module: str,
    arguments: Mapping[str, tuple[str, ...]],
    environment: Mapping[str, str],
    folder: Path,
    limit_s: float,
) -> None:
    """Run a module in several roles at once in another environment, until one has ended.

    The first role is waited for; the others are servers, and are ended after it.

    Args:
        python: the interpreter.
        module: as in ``python -m``.
        arguments: {role: its command line}.
        environment: of all of them.
        folder: where they run, and where their output goes.
        limit_s: how long the first may take.

    Raises:
        RuntimeError: the first failed or took longer, or another one failed before it; the
            end of everybody's output is in the message.
    """
    with contextlib.ExitStack() as stack:
        running = {}
        for role, words in reversed(list(arguments.items())):
            output = stack.enter_context((folder / f"{role}.log").open("wb"))
            running[role] = subprocess.Popen(
                [str(python), "-m", module, *words],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            stack.callback(_end_group, running[role])
        first = next(iter(arguments))
        deadline = Deadline(SystemClock(), limit_s)
        while not (ended := _ended(first, running)) and not deadline.is_over():
            threading.Event().wait(POLL_S)
        failure = ""
        if not ended:
            failure = f"{first} is not over after {limit_s:g} s"
        elif running[ended].returncode:
            failure = f"{ended} ended with status {running[ended].returncode}"
    if failure:
        ends = [f"-- {role}:\n{_last_lines(folder / f'{role}.log')}" for role in arguments]
        raise RuntimeError("\n".join([f"{module}: {failure}", *ends]))


def _ended(first: str, running: "Mapping[str, subprocess.Popen[bytes]]") -> str:
    """The first role if it is over, or else another one that has failed; or none."""
    if running[first].poll() is not None:
        return first
    failed = [role for role, process in running.items() if process.poll()]
    return failed[0] if failed else ""


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with whatever it has started, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(GONE_S)


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
