"""A job inside one process: coordinator, servers and trainers as threads.

Services and job folder are the same as elsewhere; only the transport is the in-process one.
``python train.py`` runs like this with one trainer and one server; tests run several.

Waits: `EmbeddedJob.close` and `EmbeddedJob.wait_saved`, with bounds. Sessions may be used
from different threads, each from one.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

import msgspec

from paceline.config import JobConfig
from paceline.ids import COORDINATOR, LAUNCHER, server_id
from paceline.launch.job import (
    JobDir,
    RunFile,
    Wires,
    claimed,
    hold_sockets,
    remove_sockets,
)
from paceline.launch.processes import open_coordinator, open_server
from paceline.launch.supervise import CoordinatorLink
from paceline.messages.shared import Refusal
from paceline.messages.watching import Interrupt, JobStatus, LauncherOrders, Scale
from paceline.store.blobs import BlobStore
from paceline.store.cuts import list_cuts
from paceline.timing import Deadline, SystemClock
from paceline.trainer.client import Courier
from paceline.trainer.peers import PeerWires
from paceline.trainer.seating import take_seat
from paceline.trainer.session import Session
from paceline.transport.frames import ByteArray
from paceline.transport.service import Peer, Reply, Service
from paceline.watch.summary import (
    Ending,
    Restarts,
    RunTime,
    Summary,
    Verdict,
    decide_ending,
    summarize,
)

LEAVE_S = 5.0  # how long servers may take to shut down when the job is over
GATHER_S = 0.25  # what steps have done, before it is journalled
LOOK_EVERY_S = 0.02  # whether a cut is there
_ALONE = "this job runs in the process of its script (python train.py)"
_NEEDS_LAUNCHER: dict[type, str] = {  # {what is asked: why it is refused}
    Scale: f"scale: {_ALONE}, which is its only trainer; end it by Ctrl-C, which saves, "
    "and go on with more by paceline run --resume --trainers N",
    Interrupt: f"interrupt: {_ALONE}: end it by Ctrl-C there, which saves",
}


@final
class EmbeddedJob:
    """All roles of a job in this process; ``summary`` and ``verdict``: how it has ended."""

    def __init__(
        self,
        config: JobConfig,
        job_dir: Path,
        *,
        is_resumed: bool = False,
        script: str | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Start the coordinator and ``config.servers`` servers.

        Sessions for ``config.trainers`` trainers are expected; ``is_resumed``: go on where
        the folder's last run ended; ``script``: what trainers run, as `paceline run` is
        told of it, and its ``arguments``.

        Raises:
            UsageError: the folder or the place of the cuts belongs to another job, or there
                is none to go on with.
            StoreError: the place of the cuts is not there, or cannot be written.
        """
        self._job = JobDir(job_dir)
        self.path = self._job.path
        self._clock = SystemClock()
        self._started_s = self._clock.now_s()
        self._timing = threading.Lock()  # guards the next
        self._time = RunTime(self._started_s)
        self._sessions: list[Session] = []
        self._sockets: Path | None = None
        self.summary: Summary | None = None
        self.verdict: Verdict | None = None
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._job.hold())
            self._config = stack.enter_context(
                claimed(
                    self._job,
                    config,
                    script or sys.argv[0],
                    _say,
                    is_resumed=is_resumed,
                    arguments=arguments,
                )
            )
            job = (stack, self._job, self._config)
            coordinator = self._address(COORDINATOR)
            wires = self._wires(COORDINATOR)
            self._coordinator = open_coordinator(*job, wires, coordinator, GATHER_S)
            self._servers = [
                open_server(*job, self._wires(server), self._address(server), coordinator)
                for server in map(server_id, range(config.servers))
            ]
            self._stack = stack.pop_all()

    def session(self, trainer: str) -> Session:
        """A session of a trainer, by role id; every call joins anew."""
        wires, door = self._wires(trainer), f"{trainer}/{len(self._sessions)}"
        peers = PeerWires(
            lambda service: wires.listen_as_trainer([self._address(door)], service),
            wires.to_trainer(),
        )
        coordinator = wires.to_coordinator(self._address(COORDINATOR))
        courier, timeout_s = Courier(coordinator, wires.to_server()), self._config.timeout_s
        seat = take_seat(trainer, courier, self._clock, timeout_s, peers=peers)
        session = Session(seat, self._job.path)
        self._sessions.append(session)
        return session

    def status(self) -> JobStatus:
        """How the job stands; any thread may ask, soon enough to see the run's start."""
        status = self._coordinator.status()
        self._note_time(status)
        return status

    def listen(self) -> None:
        """From now on `paceline status` and `paceline pace` can ask it, until it is closed.

        Raises:
            OSError: no folder can be made for the socket, or no file beside the job's.
            UsageError: its address cannot be taken.
        """
        assert self._sockets is None
        with contextlib.ExitStack() as stack:
            self._sockets = stack.enter_context(hold_sockets())
            address = f"unix:{self._sockets / COORDINATOR}.sock"
            door = _OutsideDoor(self._coordinator)
            stack.enter_context(self._wires(COORDINATOR).listen_to_outside(address, door))
            run = RunFile(self._config.run, address, str(self._sockets), os.getpid())
            self._job.write_run(run)
            self._stack.enter_context(stack.pop_all())

    def keep_plugins(self, plugins: Sequence[str]) -> None:
        """Let the command that goes on with the job name these, whoever kills it.

        Raises:
            StoreFull: there is no space for it.
        """
        self._job.keep_options([word for one in plugins for word in ("--plugin", one)])

    def wait_saved(self, limit_s: float) -> JobStatus | None:
        """Take a cut of all that counts; sessions have left, or were given up.

        How the job stands then; None if no cut could be taken, within ``limit_s``, or at
        once if the job folder's disk is full. Where nothing is shared there is nothing to
        save, and no cut.
        """
        wires = Wires(self._config.run, LAUNCHER, self._clock)
        link = CoordinatorLink(wires.to_coordinator_as_launcher(self._address(COORDINATOR)))
        deadline = Deadline(self._clock, limit_s)
        try:
            while not deadline.is_over() and not self._coordinator.is_broken:
                orders = link.call_report(deadline.remaining_s(), saving=True)
                if isinstance(orders, JobStatus):
                    return None
                if isinstance(orders, LauncherOrders):
                    if orders.status.error is not None:
                        return None
                    if orders.is_saved:
                        return orders.status
                time.sleep(LOOK_EVERY_S)
        finally:
            link.close()
        return None

    def has_cut(self) -> bool:
        """Whether there is anything to go on from."""
        return bool(list_cuts(BlobStore(self._job.cuts_of(self._config))))

    def close(self, verdict: Verdict | None = None) -> dict[str, object]:
        """End the job; its summary is written and returned. May be repeated.

        With a verdict it did not end by itself: sessions do not leave.
        """
        if self.summary is not None:
            return self.summary.as_dict()
        with self._stack:
            if verdict is None:
                for session in self._sessions:
                    session.close()
            status = self._coordinator.status()
            are_told = self._coordinator.finish()
            deadline = Deadline(self._clock, LEAVE_S if are_told else 0.0)
            for server in self._servers:
                server.wait_over(deadline.remaining_s())
            summary = self._write_end(status, verdict or decide_ending(status))
        return summary.as_dict()

    def leave_as_is(self, status: JobStatus | None) -> None:
        """Its process ends this moment: nothing is waited for, and nothing closed.

        What was journalled and cut is there, as after a kill; the summary says how it went,
        by the last status that is known.
        """
        trouble = None if status is None else status.trouble
        why = "interrupted" if trouble is None else f"interrupted; {trouble.text}"
        with contextlib.suppress(OSError):  # somebody is writing the same
            self._write_end(status, Verdict(Ending.INTERRUPTED, why))
        if self._sockets is not None:
            remove_sockets(self._sockets)

    def _write_end(self, status: JobStatus | None, verdict: Verdict) -> Summary:
        seconds = self._clock.now_s() - self._started_s
        if status is not None:
            self._note_time(status)
        where = str(self.path)
        summary = summarize(status, verdict, Restarts(), seconds, where, self._time)
        self.verdict, self.summary = verdict, summary
        unwritten = self._job.write_end(status, summary.as_dict())
        if unwritten is not None:
            print(f"paceline: {unwritten}", file=sys.stderr)  # noqa: T201  (nobody else tells)
        return summary

    def _note_time(self, status: JobStatus) -> None:
        with self._timing:
            self._time.note(status, self._clock.now_s())

    def _address(self, role: str) -> str:
        return f"inproc:{self._config.run}/{role}"

    def _wires(self, role: str) -> Wires:
        return Wires(self._config.run, role, self._clock)


@final
class _OutsideDoor:
    """The coordinator as other processes may ask it; what needs a launcher is refused."""

    def __init__(self, coordinator: Service) -> None:
        self._coordinator = coordinator

    def received(
        self,
        peer: Peer,
        message: msgspec.Struct,
        buffers: list[ByteArray],
        reply: Reply,
    ) -> None:
        """See `Service`."""
        if why := _NEEDS_LAUNCHER.get(type(message)):
            reply(Refusal(kind="invalid", text=why, timeline=0))
        else:
            self._coordinator.received(peer, message, buffers, reply)

    def disconnected(self, peer: Peer) -> None:
        """Nobody who comes by here is a member; and connections are numbered anew here."""


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  (an embedded job has no launcher to tell)
