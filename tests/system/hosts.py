"""A job over several hosts, each as whole processes: the launcher's, and agents'."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from paceline.errors import PacelineError
from paceline.launch.job import OBSERVER, JobDir, Wires, call_running, running_job
from paceline.messages.watching import AskStatus, JobStatus
from paceline.testing.machines import Machine
from paceline.timing import SystemClock

COUNTING = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
PACELINE = [sys.executable, "-m", "paceline.cli.main"]
LIMIT_S = 240.0


def within(seconds: float, what: str, is_so: Any) -> Any:
    """What ``is_so`` returns once that is true."""
    end = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


class HostedJob:
    """A counting job whose launcher listens at loopback; hosts are started by hand."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        script: Sequence[str] = (),
        machines: Sequence[Machine] = (),
        ssh: Sequence[str] = (),
        is_counting: bool = True,
        lead: Sequence[str] = ("run",),
        **more: Any,
    ) -> None:
        """Begin; ``script`` is the counting script's path, or arguments of it alone.

        Another script, which is not counting, is told no place for a verdict.

        With ``machines`` the launcher is on the first, and each host on one of the others;
        ``ssh`` are options by which it starts hosts itself, ``lead`` is its command.
        """
        self.folder, self.machines = folder, machines
        where = ["--listen", tcp(machines[0]) if machines else "127.0.0.1:0"]
        if not script or script[0].startswith("--"):
            script = (str(COUNTING), *script)
        self.job = JobDir(folder / "job")
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)
        self.agents: list[subprocess.Popen[bytes]] = []
        self.verdict = folder / "verdict.json"
        self.output = folder / "launcher.txt"
        self.launcher = self.run(
            "launcher",
            [*lead, *(ssh or where), "--job-dir", str(self.job.path)],
            ["--checkpoints", str(folder / "cuts"), "--pace", "async", *options],
            [*script, *(["--out", str(self.verdict)] if is_counting else [])],
            on=0,
            **more,
        )
        self.address = within(30.0, "it says how to join", self._address)

    def run(
        self, name: str, *words: Sequence[str], on: int, **more: Any
    ) -> subprocess.Popen[bytes]:
        """Run ``paceline`` with an output of its own, on a machine if there are some."""
        environment = {
            **os.environ,
            "PACELINE_SECRET_FILE": str(self.secret),
            "OMP_NUM_THREADS": "1",
            **more.pop("environment", {}),
        }
        command = [*PACELINE, *(word for some in words for word in some)]
        log = self.folder / f"{name}.txt"
        if self.machines:
            return self.machines[on].popen(command, log, env=environment, **more)
        with log.open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                **more,
            )

    def host(
        self, *options: str, words: Sequence[str] = ("host",), **more: Any
    ) -> subprocess.Popen[bytes]:
        """Start another agent, by these words; its output is ``agent-<n>.txt``."""
        name = f"agent-{len(self.agents) + 1}"
        words = [*words, "--join", self.address, "--name", name]
        folder = ["--folder", str(self.folder / name)]
        on = len(self.agents) + 1
        agent = self.run(name, words, folder, options, on=on, **more)
        self.agents.append(agent)
        return agent

    def said(self, name: str = "launcher") -> str:
        """What a process has said so far."""
        return (self.folder / f"{name}.txt").read_text()

    def is_lost(self, name: str) -> bool:
        """Whether the launcher has said so of a host."""
        return re.search(rf"\({re.escape(name)}, [^)]*\) is lost", self.said()) is not None

    def status(self) -> dict[str, Any]:
        """How the job stands; empty while nobody can say."""
        command = [*PACELINE, "status", str(self.job.path), "--json"]
        with self._at_launcher():
            asked = subprocess.run(command, capture_output=True, check=False)
        return json.loads(asked.stdout) if asked.returncode == 0 else {}

    def stands(self) -> JobStatus | None:
        """How the job stands, asked from this very process; None while nobody can say."""
        with self._at_launcher():
            return stands(self.job)

    def records(self) -> int:
        """Records that have counted so far."""
        stands = self.stands()
        return 0 if stands is None else stands.records

    def end(self) -> dict[str, Any]:
        """Wait for the end; the verdict of the script."""
        code = self.launcher.wait(LIMIT_S)
        assert code == 0, self.said()
        found: dict[str, Any] = json.loads(self.verdict.read_text())
        return found

    def close(self) -> None:
        """Leave nothing running, whatever has failed."""
        for process in (self.launcher, *self.agents):
            for child in tree(process.pid):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.wait(10.0)

    def _at_launcher(self) -> AbstractContextManager[None]:
        return self.machines[0].inside() if self.machines else nullcontext()

    def _address(self) -> str:
        if self.launcher.poll() is not None:
            raise AssertionError(self.said())
        _, found, rest = self.said().partition("paceline host --join ")
        return rest.split()[0] if found else ""


def stands(job: JobDir) -> JobStatus | None:
    """How a job stands; None while nobody can say."""
    clock = SystemClock()
    with suppress(PacelineError):
        running = running_job(job, clock)
        if running is None:
            return None
        asked = call_running(running, OBSERVER, AskStatus(), Wires.observe, clock)
        return asked if isinstance(asked, JobStatus) else None
    return None


def tcp(machine: Machine, port: int = 7070) -> str:
    """An address of a machine as the command line takes it."""
    return f"{machine.ipv4}:{port}" if machine.ipv4 else f"[{machine.ipv6}]:{port}"


def tree(pid: int) -> list[psutil.Process]:
    """A process and all that it has started, directly or not."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
