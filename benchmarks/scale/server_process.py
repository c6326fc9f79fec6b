"""The parameter server that `benchmarks server_scale` measures.

::

    python -m benchmarks.scale.server_process FOLDER ELEMENTS

A server as a job has it, its socket in FOLDER, with one part of one parameter of so many
float32. A stand-in for the coordinator has it made and orders nothing else.

Waits: for the end of its standard input.
"""

import contextlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import final

import msgspec

from benchmarks.scale.lines import RUN
from paceline.config import Async, JobConfig
from paceline.ids import COORDINATOR
from paceline.launch.job.wiring import Wires
from paceline.messages.server import CreatePart, Orders, ServerReport
from paceline.messages.shared import OptimizerSpec, ParameterSpec, PartPlan, PartSpec
from paceline.params.blocks import cut_blocks
from paceline.server.service import ServerService
from paceline.store.blobs.blobs import BlobStore
from paceline.timing import SystemClock
from paceline.transport import service as link

SERVER = "server-0"
REPORT_S = 0.1  # between two reports


@final
class OneOrder:
    """A coordinator that knows one order."""

    def __init__(self, order: CreatePart) -> None:
        """Have a part made."""
        self.is_made = threading.Event()
        self._order = order

    def received(
        self,
        peer: link.Peer,
        message: msgspec.Struct,
        buffers: Sequence[object],
        reply: link.Reply,
    ) -> None:
        """Take a report."""
        del peer, buffers
        assert isinstance(message, ServerReport)
        if message.parts:
            self.is_made.set()
            threading.Event().wait(REPORT_S)
        reply(Orders(incarnation=1, orders=() if message.parts else (self._order,)))

    def disconnected(self, peer: link.Peer) -> None:
        """Nothing to tidy."""


def plan_of(elements: int) -> PartPlan:
    """One part with one parameter, all of it here."""
    spec = PartSpec(
        0,
        (ParameterSpec(("w",), (elements,), "float32"),),
        OptimizerSpec("SGD", ({"lr": 1.0},)),
        (),
        Async(),
    )
    return PartPlan(spec, cut_blocks(spec.parameters, 1, first_slot=0), 1, 0, {0: SERVER})


def main(folder: Path, elements: int) -> None:
    """Serve until standard input ends."""
    clock = SystemClock()
    config = JobConfig(run=RUN, pace=Async())
    orders = OneOrder(CreatePart(plan=plan_of(elements)))
    led = f"unix:{folder / 'coordinator.sock'}"
    address = f"unix:{folder / 's.sock'}"
    with contextlib.ExitStack() as stack:
        lead = Wires(RUN, COORDINATOR, clock)
        stack.enter_context(lead.listen_as_coordinator(led, orders))
        wires = Wires(RUN, SERVER, clock)
        store = BlobStore(str(folder / "checkpoints"))
        to_coordinator = wires.to_coordinator(led)
        service = ServerService(SERVER, config, address, to_coordinator, store, clock)
        stack.callback(service.close)
        stack.enter_context(wires.listen_as_server(address, service))
        service.start()
        orders.is_made.wait()
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
