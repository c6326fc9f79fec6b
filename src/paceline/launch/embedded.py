"""A job inside one process: coordinator, servers and trainers as threads.

The services are the same as elsewhere; only the transport is the in-process one. The job
folder is the same too. ``python train.py`` runs like this with one trainer and one
server; tests run several of each.

Waits: `EmbeddedJob.close`, with bounds. Sessions may be used from different threads, each
from one.
"""

import contextlib
import sys
from pathlib import Path
from typing import final

from paceline.config import JobConfig
from paceline.coordinator.service import CoordinatorService
from paceline.events import EventLog
from paceline.ids import COORDINATOR, server_id
from paceline.launch.claiming import claimed
from paceline.launch.folder import JobDir
from paceline.launch.wiring import Wires
from paceline.server.service import ServerService
from paceline.store.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.timing import Deadline, SystemClock
from paceline.trainer.peer_link import PeerWires
from paceline.trainer.session import Session
from paceline.watch.summary import Restarts, Verdict, decide_ending, summarize
from paceline.watch.trained import RunTime

LEAVE_S = 5.0  # how long servers may take to shut down when the job is over


@final
class EmbeddedJob:
    """All roles of a job in this process.

    Attributes:
        verdict: how the job ended; None until it is closed.
    """

    def __init__(
        self, config: JobConfig, job_dir: Path, *, is_resumed: bool = False
    ) -> None:
        """Start the coordinator and ``config.servers`` servers.

        Args:
            config: the job; sessions for ``config.trainers`` trainers are expected.
            job_dir: its folder, made if need be.
            is_resumed: go on where the folder's last run ended.

        Raises:
            UsageError: the folder or the place of the cuts belongs to another job, or there
                is none to go on with.
            StoreError: the place of the cuts is not there, or cannot be written.
        """
        self._job = JobDir(job_dir)
        self._clock = SystemClock()
        self._started_s = self._clock.now_s()
        self._sessions: list[Session] = []
        self._summary: dict[str, object] | None = None
        self.verdict: Verdict | None = None
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._job.hold())
            self._config = stack.enter_context(
                claimed(self._job, config, sys.argv[0], _say, is_resumed=is_resumed)
            )
            self._coordinator = self._open_coordinator(stack)
            self._servers = [
                self._open_server(server_id(n), stack) for n in range(config.servers)
            ]
            self._stack = stack.pop_all()

    def session(self, trainer: str) -> Session:
        """A session of a trainer, by role id; every call joins anew."""
        wires, door = self._wires(trainer), f"{trainer}/{len(self._sessions)}"
        peers = PeerWires(
            lambda service: wires.listen_as_trainer([self._address(door)], service),
            wires.to_trainer(),
        )
        session = Session(
            trainer,
            wires.to_coordinator(self._address(COORDINATOR)),
            wires.to_server(),
            self._clock,
            timeout_s=self._config.timeout_s,
        )
        session.membership.meet_others(peers)
        self._sessions.append(session)
        return session

    def close(self, verdict: Verdict | None = None) -> dict[str, object]:
        """End the job; its summary is written and returned. May be repeated.

        Args:
            verdict: how it ended, when it did not end by itself: sessions do not leave.
        """
        if self._summary is not None:
            return self._summary
        with self._stack:
            if verdict is None:
                for session in self._sessions:
                    session.close()
            status = self._coordinator.status()
            time = RunTime(self._started_s)
            time.note(status, self._clock.now_s())
            self._coordinator.finish()
            deadline = Deadline(self._clock, LEAVE_S)
            for server in self._servers:
                server.wait_over(deadline.remaining_s())
        self.verdict = verdict or decide_ending(status)
        seconds = self._clock.now_s() - self._started_s
        summary = summarize(
            status, self.verdict, Restarts(), seconds, str(self._job.path), time
        )
        self._summary = summary.as_dict()
        self._job.write_end(status, self._summary)
        return self._summary

    def _address(self, role: str) -> str:
        return f"inproc:{self._config.run}/{role}"

    def _wires(self, role: str) -> Wires:
        return Wires(self._config.run, role, self._clock)

    def _open_coordinator(self, stack: contextlib.ExitStack) -> CoordinatorService:
        journal = Journal(self._job.journal)
        stack.callback(journal.close)
        events = EventLog(self._job.events)
        stack.callback(events.close)
        store = BlobStore(self._job.cuts_of(self._config))
        service = CoordinatorService(self._config, journal, store, self._clock, events)
        stack.callback(service.close)
        wires = self._wires(COORDINATOR)
        address = self._address(COORDINATOR)
        stack.enter_context(wires.listen_as_coordinator(address, service))
        service.start()
        return service

    def _open_server(self, server: str, stack: contextlib.ExitStack) -> ServerService:
        wires = self._wires(server)
        address = self._address(server)
        service = ServerService(
            server,
            self._config,
            address,
            wires.to_coordinator(self._address(COORDINATOR)),
            BlobStore(self._job.cuts_of(self._config)),
            self._clock,
        )
        stack.callback(service.close)
        stack.enter_context(wires.listen_as_server(address, service))
        service.start()
        return service


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201  (an embedded job has no launcher to tell)
