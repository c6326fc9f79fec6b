"""What a lease costs a coordinator to whom everybody talks at once: processor time.

::

    python -m benchmarks.coordinator_backlog [--trainers 300] [--rounds 10] [--times 3]

All trainers end a task and want the next one; then they wait for their answers, and so on.
Coordinator and trainers are in one process: what its other threads spend, that of the
trainers left out, is the coordinator's. That is no rate, and so can be compared between
commits on a machine that is never idle; how many leases share a transaction of the journal
stands beside it.

Exit status: 0.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.coordinator_process import RUN, TIMEOUT_S
from benchmarks.crowd import Crowd, LightServer, LightTrainer, wait_at_work
from paceline.config import Async, JobConfig
from paceline.coordinator.service import CoordinatorService
from paceline.events import EventLog
from paceline.ids import COORDINATOR
from paceline.launch.job.wiring import Wires
from paceline.messages.shared import StageSpec
from paceline.store.blobs.blobs import BlobStore
from paceline.store.journal.journal import Journal
from paceline.timing import SystemClock


class Cost(NamedTuple):
    """Of one lease."""

    cpu_us: float
    leases_a_transaction: float


class _Counting:
    """A journal that counts its transactions."""

    def __init__(self, journal: Journal) -> None:
        self.count, self._append = 0, journal.append

    def append(self, bodies: Sequence[bytes]) -> int:
        self.count += 1
        return self._append(bodies)


def measure(trainers: int, rounds: int) -> Cost:
    """Let so many trainers get so many leases each."""
    clock = SystemClock()
    config = JobConfig(
        run=RUN, trainers=trainers, servers=1, pace=Async(), timeout_s=TIMEOUT_S
    )
    with tempfile.TemporaryDirectory(prefix="pl-") as name, ExitStack() as stack:
        folder, address = Path(name), f"unix:{name}/c.sock"
        journal = Journal(folder / "journal.sqlite")
        stack.callback(journal.close)
        counting = _Counting(journal)
        journal.append = counting.append  # type: ignore[method-assign]  # to count
        events = EventLog(folder / "events.jsonl")
        stack.callback(events.close)
        store = BlobStore(str(folder / "checkpoints"))
        service = CoordinatorService(config, journal, store, clock, events)
        stack.callback(service.close)
        service.start()
        wires = Wires(RUN, COORDINATOR, clock)
        stack.enter_context(wires.listen_as_coordinator(address, service))
        crowd = Crowd(address, trainers)
        stack.callback(crowd.close)
        server = LightServer(address)
        stack.callback(server.close)
        tasks = trainers * (rounds + 1)
        wait_at_work(crowd, StageSpec(0, tasks, 1, 1, 1, True, 0, "data"))
        before, all_s, own_s = counting.count, time.process_time(), time.thread_time()
        for _ in range(rounds):
            crowd.everyone(LightTrainer.tick)
        spent_s = time.process_time() - all_s - (time.thread_time() - own_s)
        leases = trainers * rounds
        return Cost(1e6 * spent_s / leases, leases / (counting.count - before))


def main(arguments: Sequence[str]) -> int:
    """Measure and print; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.coordinator_backlog")
    parser.add_argument("--trainers", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10, help="leases of each trainer")
    parser.add_argument("--times", type=int, default=3, help="measurements")
    flags = parser.parse_args(arguments[1:])
    costs = [measure(flags.trainers, flags.rounds) for _ in range(flags.times)]
    spent = sorted(cost.cpu_us for cost in costs)
    shared = statistics.median(cost.leases_a_transaction for cost in costs)
    print(
        f"a lease: {statistics.median(spent):.1f} us of processor time "
        f"({spent[0]:.1f} to {spent[-1]:.1f}); {shared:.1f} leases a transaction"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
