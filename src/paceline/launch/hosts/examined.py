"""A machine that is examined before a job: it finds out what it is ordered to.

::

    join -> `ExamJoined` in place of a job
    report what it is and all that it has found -> try a machine, write or read a file
    the examination is over, or nothing is heard -> go

It decides nothing.

Waits: for the examiner, with deadlines; for what is tried. The main thread, or one that is
not told to stop.
"""

import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import final

import psutil
from msgspec import structs

from paceline.errors import (
    Interrupted,
    JobFailed,
    PacelineError,
    StoreError,
    TransportError,
)
from paceline.launch.guests import JobOver
from paceline.launch.hosts.probing import probe
from paceline.launch.hosts.sameness import check_script, versions
from paceline.launch.job import Wires
from paceline.launch.processes import Interrupts, wait_any
from paceline.messages.hosts import (
    ExamJoined,
    ExamOrders,
    ExamReport,
    HostScript,
    JoinHost,
    MachineFacts,
    ProbeResult,
)
from paceline.messages.shared import Refusal
from paceline.store.blobs import BlobStore
from paceline.timing import Deadline, wall_time_s
from paceline.transport.patience import PatientConnection

REPORT_EVERY_S = 0.2
ANSWER_S = 5.0
LATE_S = 5.0  # what another machine has written is to be seen by then
_CGROUP = Path("/sys/fs/cgroup")


def facts(cores: int, script: HostScript | None = None) -> MachineFacts:
    """What this machine is, as the agent finds it."""
    lacks = ""
    if script is not None:
        try:
            check_script(script)
        except (PacelineError, OSError) as error:
            lacks = str(error)
    import resource  # noqa: PLC0415  (Windows has none, and no hosts)

    num_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MachineFacts(
        cores=cores,
        memory_bytes=_free_memory(),
        disk_bytes=shutil.disk_usage(Path.cwd()).free,
        num_files=num_files,
        versions={"Python": platform.python_version(), **versions()},
        lacks=lacks,
    )


def _free_memory() -> int:
    """Less than the machine has free where a container may have less."""
    free: int = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # no limit: "max", or no such file
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        free = min(free, max(0, limit - used))
    return free


@final
class Examined:
    """A machine that has come to be examined, and what it has found."""

    def __init__(
        self, joined: ExamJoined, message: JoinHost, wires: Wires, silence_s: float
    ) -> None:
        """It came with ``message``, and has tried nothing yet.

        It goes when nothing is heard for ``silence_s``.
        """
        self._checkpoints, self._wires = joined.checkpoints, wires
        self._silence_s = silence_s
        self._report = ExamReport(
            host=joined.host,
            token=message.token,
            wall_s=wall_time_s(),
            facts=facts(message.cores, joined.script),
        )
        self._probes: dict[str, ProbeResult] = {}
        self._files: dict[str, str] = {}

    def wait_over(self, link: PatientConnection, interrupts: Interrupts) -> JobOver:
        """Find out what is ordered until all is known; how it ended, in words.

        Raises:
            JobFailed: nothing was heard for too long, or this machine was given up.
            Interrupted: it was told to stop.
        """
        deadline = Deadline(self._wires.clock, self._silence_s)
        while not interrupts.count:
            answer = self._ask(link)
            if isinstance(answer, Refusal):
                raise JobFailed(answer.text)
            is_done = False
            if answer is not None:
                deadline = Deadline(self._wires.clock, self._silence_s)
                if answer.is_over:
                    return JobOver("the examination is over", 0)
                is_done = self._carry_out(answer)
            elif deadline.is_over():
                raise JobFailed(
                    f"nothing was heard of the examination for {self._silence_s:g} s "
                    "(--orphan-after)"
                )
            if not is_done:
                wait_any([], REPORT_EVERY_S)
        self._ask(link, leaves="it was told to stop")
        raise Interrupted("this machine was told to stop, and is not examined to the end")

    def _ask(
        self, link: PatientConnection, leaves: str = ""
    ) -> ExamOrders | Refusal | None:
        """Report; None: nobody answers."""
        report = structs.replace(
            self._report,
            wall_s=wall_time_s(),
            probes=dict(self._probes),
            files=dict(self._files),
            leaves=leaves,
        )
        try:
            answer = link.call(report, ANSWER_S)
        except TransportError:
            return None
        assert isinstance(answer, ExamOrders | Refusal)
        return answer

    def _carry_out(self, orders: ExamOrders) -> bool:
        """Find out one thing that is not known yet; whether there was one."""
        for host, place in orders.probes.items():
            if host not in self._probes:
                connect = partial(self._wires.to_other_host, *place)
                self._probes[host] = probe(connect, self._wires.clock)
                return True
        if orders.writes and orders.writes not in self._files:
            self._files[orders.writes] = self._tried(self._write, orders.writes)
            return True
        for name in orders.reads:
            if name not in self._files:
                self._files[name] = self._tried(self._read, name)
                return True
        return False

    def _tried(self, do: Callable[[BlobStore, str], str], name: str) -> str:
        try:
            return do(BlobStore(self._checkpoints), name)
        except PacelineError as error:
            return str(error)

    def _write(self, store: BlobStore, name: str) -> str:
        if store.local is not None and not store.local.is_dir():
            return f"there is no folder {store.local} on this machine"
        store.write(name, [name.encode()])
        return ""

    def _read(self, store: BlobStore, name: str) -> str:
        deadline = Deadline(self._wires.clock, LATE_S)
        while True:
            try:
                found = store.read(name)
            except StoreError as error:
                if deadline.is_over():
                    return str(error)
                wait_any([], REPORT_EVERY_S)
                continue
            return "" if found == name.encode() else f"{name} holds {found[:80]!r}"
