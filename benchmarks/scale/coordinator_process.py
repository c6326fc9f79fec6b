"""The processes that `benchmarks coordinator_scale` measures.

::

    python -m benchmarks.scale.coordinator_process FOLDER coordinator TRAINERS
    python -m benchmarks.scale.coordinator_process FOLDER echo TRAINERS

A coordinator as a job has it: journal, event log and sockets in FOLDER. Or its floor: the
same transport and messages, and a service that says `Ticked` to everything at once.

Waits: for the end of its standard input.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import final

import msgspec

from benchmarks.scale.lines import RUN
from paceline.config import Async, JobConfig
from paceline.coordinator.service import CoordinatorService
from paceline.events import EventLog
from paceline.ids import COORDINATOR
from paceline.launch.job.wiring import Wires
from paceline.messages.trainer import Ticked
from paceline.store.blobs.blobs import BlobStore
from paceline.store.journal import Journal
from paceline.timing import SystemClock
from paceline.transport import service as link

TIMEOUT_S = 600.0  # the crowd sends no beats


@final
class Echo:
    """Answers everything at once, alike."""

    def received(
        self,
        peer: link.Peer,
        message: msgspec.Struct,
        buffers: Sequence[object],
        reply: link.Reply,
    ) -> None:
        """Take a request."""
        del peer, message, buffers
        reply(Ticked())

    def disconnected(self, peer: link.Peer) -> None:
        """A connection has gone."""


def main(folder: Path, kind: str, trainers: int) -> None:
    """Serve until standard input ends."""
    clock = SystemClock()
    wires = Wires(RUN, COORDINATOR, clock)
    address = f"unix:{folder}/s.sock"
    with contextlib.ExitStack() as stack:
        if kind == "echo":
            service: link.Service = Echo()
        else:
            journal = Journal(folder / "journal.sqlite")
            stack.callback(journal.close)
            events = EventLog(folder / "events.jsonl")
            stack.callback(events.close)
            config = JobConfig(
                run=RUN,
                trainers=trainers,
                servers=1,
                pace=Async(),
                timeout_s=TIMEOUT_S,
            )
            store = BlobStore(str(folder / "checkpoints"))
            service = CoordinatorService(config, journal, store, clock, events)
            stack.callback(service.close)
            service.start()
        stack.enter_context(wires.listen_as_coordinator(address, service))
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
