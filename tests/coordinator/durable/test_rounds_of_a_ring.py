"""Fifty rounds of a ring, a death in each: every block at every data part once a round.

One data part for each trainer, and blocks for two slices; whoever dies is started again and
joins anew. What happened is read from what the journal keeps.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest

from paceline.config import Async
from paceline.coordinator.durable.outcomes import (
    EpochEnded,
    LeaseGranted,
    TaskDone,
    TrainerLost,
)
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import StageSpec
from paceline.messages.trainer import AskLease, Granted
from tests.coordinator.replaying import validate

ROUNDS, TRAINERS = 50, 4
CELLS = RotationSpec(0, TRAINERS, 2 * TRAINERS, (3,) * (2 * TRAINERS * TRAINERS), 2)
STAGE = StageSpec(0, 96, 3, 3, ROUNDS, True, 5, "data", rotation=CELLS)


@pytest.fixture
def job(make_job: Any) -> Any:
    job = make_job(pace=Async(), trainers=TRAINERS, is_checked=False)
    job.open(*(f"trainer-{n}" for n in range(TRAINERS)), stage=STAGE)
    return job


class Ride:
    """Trainers that take cells, end them, and die, in a random order from a seed."""

    def __init__(self, job: Any, seed: int) -> None:
        self.job, self.random = job, Random(seed)
        self.held: dict[str, list[Any]] = {name: [] for name in job.trainers}
        self.deaths = 0

    def epoch(self) -> int:
        epoch: int = self.job.state.durable.queue.epoch
        return epoch

    def is_over(self) -> bool:
        done = self.job.state.status().tasks_done
        return bool(done == ROUNDS * CELLS.num_cells())

    def act(self) -> None:
        name = self.random.choice(sorted(self.held))
        leases = self.held[name]
        if len(leases) < CELLS.slices:
            known = tuple((lease.token, -1) for lease in leases)
            ticket = self.job.ask(name, self._ask(name, known))
            answer = self.job.answers.get(ticket)
            if isinstance(answer, Granted):
                leases.append(answer.lease)
        if leases and self.random.random() < 0.7:
            lease = leases.pop(0)
            self.job.ask_tick(name, lease, lease.first, 0)

    def kill(self) -> None:
        holders = [name for name, leases in self.held.items() if leases]
        name = self.random.choice(holders)
        self.job.lose(name)
        self.deaths += 1
        self.held[name] = []
        self.job.join(name)
        self.job.serve()

    def _ask(self, name: str, held: Any) -> Any:
        return AskLease(**self.job.who(name), stage=0, held=held)


@pytest.mark.slow
@pytest.mark.slow
def test_fifty_rounds_with_a_death_in_each_leave_no_cell_out_and_none_twice(
    job: Any,
) -> None:
    ride, killed_in = Ride(job, seed=1), set()
    for name in sorted(job.trainers):
        job.lease(name)  # the first cut is taken; the first lease waits for all
    for _ in range(100 * ROUNDS * CELLS.num_cells()):
        if ride.is_over():
            break
        queue = job.state.durable.queue
        is_time = queue.num_done() >= 2 + ride.epoch() % 20
        if is_time and ride.epoch() not in killed_in and any(ride.held.values()):
            killed_in.add(ride.epoch())
            ride.kill()
        ride.act()
        validate(job.state.durable)
    assert ride.deaths == ROUNDS
    check_lineage(job)


def check_lineage(job: Any) -> None:
    """Who had which block when, and what the dead had open, from the journal alone."""
    done: list[Counter[int]] = [Counter() for _ in range(ROUNDS)]
    had: dict[tuple[int, int], list[str]] = {}  # {(round, block): trainers, in order}
    holder: dict[int, tuple[str, int]] = {}  # {cell: (trainer, incarnation)} of this round
    lost: set[str] = set()  # in this round
    reopened = 0
    for outcome in job.outcomes:
        if isinstance(outcome, LeaseGranted):
            holder[outcome.lease.key.task] = (outcome.trainer, outcome.incarnation)
        elif isinstance(outcome, TrainerLost):
            lost.add(outcome.trainer)
            gone = [task for task, who in holder.items() if who[1] == outcome.incarnation]
            reopened += len(gone)
            for task in gone:
                del holder[task]
        elif isinstance(outcome, TaskDone):
            key = outcome.key
            done[key.epoch][key.task] += 1
            trainer, _ = holder.pop(key.task)
            had.setdefault((key.epoch, CELLS.cell_of(key.task)[1]), []).append(trainer)
        elif isinstance(outcome, EpochEnded):
            assert not holder, "a cell is with somebody when the round ends"
            check_round(had, outcome.epoch, lost)
            lost.clear()
    assert all(round_done == Counter(range(CELLS.num_cells())) for round_done in done)
    assert reopened >= ROUNDS


def check_round(had: dict[tuple[int, int], list[str]], epoch: int, lost: set[str]) -> None:
    """Who lived through the round and kept its one data part had every block once."""
    blocks = [had[epoch, block] for block in range(CELLS.blocks)]
    assert all(len(trainers) == TRAINERS for trainers in blocks)
    total = Counter(trainer for trainers in blocks for trainer in trainers)
    for number in range(TRAINERS):
        name = f"trainer-{number}"
        if name not in lost and total[name] == CELLS.blocks:
            assert all(trainers.count(name) == 1 for trainers in blocks)
