"""A counting job whose trainers torchrun starts, on this machine, or on several nodes here.

Nodes are told apart by what their machine is called: each has a daemon of its own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil

from paceline.launch.job import JobDir
from paceline.messages.watching import JobStatus
from paceline.testing.machines import Machine
from tests.system.hosts import COUNTING, stands, stop, within

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
LIMIT_S = 240.0
_OURS = "TEST_TORCHRUN_JOB"  # by which the processes of a job are found
DAEMON = "paceline.launch.torchrun.daemon"


class TorchrunJob:
    """One job; each node is one process of torchrun, with an output of its own."""

    def __init__(
        self,
        folder: Path,
        *script: str,
        machines: Sequence[Machine] = (),
        **environment: str,
    ) -> None:
        """Nothing is started; ``script`` are arguments of the counting script.

        With ``machines`` each node is on the next of them.
        """
        self.folder, self.job, self._machines = folder, JobDir(folder / "job"), machines
        self.verdict = folder / "verdict.json"
        self._script = [str(COUNTING), *script, "--out", str(self.verdict)]
        leads = {"PACELINE_JOB_DIR": str(self.job.path), "PACELINE_PACE": "async"}
        self._environment = {
            **os.environ,
            _OURS: str(self.job.path),
            **({} if "PACELINE_JOIN" in environment else leads),
            "OMP_NUM_THREADS": "1",
            # As it is, torch 2.13 never lets a machine in that is not the first by name.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            **environment,
        }
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def alone(self, *options: str, wrapper: str = "") -> subprocess.Popen[bytes]:
        """Start the one torchrun of a job of one machine; a ``wrapper`` runs the script."""
        if wrapper:
            options = (*options, "--no-python")
            self._script = [wrapper, sys.executable, *self._script]
        return self._start("one", ["--standalone", *options])

    def node(self, name: str, nodes: str, *options: str) -> subprocess.Popen[bytes]:
        """Start one of several, which meet at the first."""
        is_first = "0" if self.nodes else "1"
        there = [machine.ipv4 for machine in self._machines] or ["127.0.0.1"]
        meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{there[0]}:{self._port}"]
        own = there[len(self.nodes) % len(there)]
        meet += ["--rdzv-id", self.folder.name, "--local-addr", own]
        meet += ["--rdzv-conf", f"is_host={is_first},last_call_timeout=1"]
        return self._start(name, ["--nnodes", nodes, *meet, *options])

    def _start(self, name: str, options: list[str]) -> subprocess.Popen[bytes]:
        on = self._machines[len(self.nodes)].inside() if self._machines else nullcontext()
        with on, (self.folder / f"{name}.txt").open("ab") as output:
            node = self.nodes[name] = subprocess.Popen(
                [*TORCHRUN, *options, "--nproc-per-node", "2", *self._script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self._environment, "PACELINE_HOST": name},
                cwd=self.folder,
                start_new_session=True,
            )
        return node

    def said(self, name: str = "one") -> str:
        """What a node's processes have said so far."""
        return (self.folder / f"{name}.txt").read_text()

    def stands(self) -> JobStatus | None:
        """How the job stands; None while nobody can say."""
        with self._machines[0].inside() if self._machines else nullcontext():
            return stands(self.job)

    def records(self) -> int:
        """Records that have counted so far."""
        status = self.stands()
        return 0 if status is None else status.records

    def pids(self, kind: str) -> dict[str, int]:
        """{role: process} of the members of a kind."""
        status = self.stands()
        if status is None:
            return {}
        return {one.id: one.pid for one in status.processes if one.id.startswith(kind)}

    def processes(self, name: str = "") -> list[psutil.Process]:
        """All that there is of the job, or of one node of it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                is_ours = environment.get(_OURS) == str(self.job.path)
                there = environment.get("PACELINE_HOST")
                if is_ours and process.pid != os.getpid() and name in {"", there}:
                    found.append(process)
        return found

    def guests(self, name: str) -> list[int]:
        """The trainers that a node's torchrun has started."""
        with suppress(psutil.Error):
            node = psutil.Process(self.nodes[name].pid)
            return [
                child.pid for child in node.children() if str(COUNTING) in child.cmdline()
            ]
        return []

    def kill_node(self, name: str) -> None:
        """End all of a node at once, as when its machine is gone."""
        stop(self.processes(name), signal.SIGKILL)
        self.nodes[name].wait(10.0)

    def summary(self) -> dict[str, Any]:
        """Once the job has ended: what came of it."""
        path = self.job.path / "summary.json"
        within(LIMIT_S, "the job ends", path.exists)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _all_said(self) -> str:
        return "\n".join(f"-- {name} --\n{self.said(name)}" for name in self.nodes)

    def counted(self) -> dict[str, Any]:
        """The verdict of the script."""
        assert self.verdict.exists(), self._all_said()
        found: dict[str, Any] = json.loads(self.verdict.read_text())
        return found

    def close(self) -> None:
        """Leave nothing running, whatever has failed."""
        stop(self.processes(), signal.SIGKILL)
        for node in self.nodes.values():
            node.wait(10.0)
