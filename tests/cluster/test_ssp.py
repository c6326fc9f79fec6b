"""Trainers under a bound on clocks, in threads: real reads, from real servers.

Some die without a word, in the middle of a task, and another begins in their place.
"""

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, final

import pytest
import torch
from torch import nn

from paceline.config import SSP, JobConfig
from paceline.launch.embedded import EmbeddedJob

TRAINERS = 8
DEATHS = 12  # of a job
LIVES = TRAINERS + DEATHS
BOUNDS = [0, 1, 3, 10]
READS = int(os.environ.get("PACELINE_REAL_READS", "2400")) // len(BOUNDS)
BATCH = 2


class Read(NamedTuple):
    """What a trainer saw as it began a step: its clock, and the steps of all."""

    life: int
    clock: int
    steps: list[int]
    offset: int  # its clock less its own steps


@final
class March:
    """A job of trainers that count their steps, some of which die."""

    def __init__(self, job: EmbeddedJob, seed: int) -> None:
        self.histories: list[list[Read]] = [[] for _ in range(LIVES)]
        self.deaths = 0
        self._job, self._seed = job, seed
        self._lives = itertools.count()
        self._lock = threading.Lock()  # guards deaths and lives
        self._errors: list[BaseException] = []
        self._dead: list[object] = []  # kept: nothing of them may run in passing

    def run(self) -> None:
        """All trainers have come to the end of the loop."""
        threads = [threading.Thread(target=self._act, args=(n,)) for n in range(TRAINERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60 + READS / 10)
        if self._errors:
            raise self._errors[0]
        assert not any(thread.is_alive() for thread in threads), "a trainer hangs"

    def _act(self, index: int) -> None:
        try:
            while not self._live(index):
                pass
        except BaseException as error:  # noqa: BLE001  (raised again by `run`)
            self._errors.append(error)

    def _live(self, index: int) -> bool:
        """Count one's own steps in a shared vector; whether the loop came to its end."""
        with self._lock:
            me = next(self._lives)
        draw = random.Random(1000 * self._seed + me)
        dies_at = draw.randrange(3, max(4, READS // LIVES))
        session = self._job.session(f"trainer-{index}")
        model = nn.Module()
        model.steps = nn.Parameter(torch.zeros(LIVES, dtype=torch.float64))
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        membership = session.membership
        marching = membership._protocol.marching
        ids = torch.arange(READS * BATCH)
        batches = session.batches(ids, BATCH, task_size=8 * BATCH)
        for mine, _ in enumerate(batches):
            if mine == dies_at and self._may_die():
                membership._heartbeat.stop(10.0)  # type: ignore[union-attr]
                membership.driver.close()  # type: ignore[union-attr]
                self._dead.append((session, batches))
                return False
            seen = [round(float(value)) for value in model.steps.detach()]
            assert seen[me] == mine, f"{me} has taken {mine} steps and sees {seen[me]}"
            assert marching.clock is not None
            self.histories[me].append(Read(me, marching.clock, seen, marching.clock - mine))
            if draw.random() < 0.05:
                time.sleep(0.004 * draw.random())
            model.steps.grad = torch.zeros(LIVES, dtype=torch.float64)
            model.steps.grad[me] = -1.0
            optimizer.step()
        return True

    def _may_die(self) -> bool:
        with self._lock:
            if self.deaths == DEATHS:
                return False
            self.deaths += 1
            return True


@contextmanager
def marched(staleness: int, folder: Path) -> Iterator[March]:
    """A job that has come to its end."""
    pace = SSP(staleness=staleness)
    config = JobConfig(
        run=f"ssp-{staleness}", trainers=TRAINERS, servers=2, pace=pace, timeout_s=60.0
    )
    job = EmbeddedJob(config, folder / "job")
    try:
        march = March(job, staleness)
        march.run()
        yield march
    finally:
        job.close()


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("staleness", BOUNDS)
def test_what_is_read_has_all_steps_that_the_bound_asks_for(
    staleness: int, tmp_path: Path
) -> None:
    with marched(staleness, tmp_path) as march:
        histories, deaths = march.histories, march.deaths
    reads = [read for history in histories for read in history]
    assert deaths == DEATHS
    assert len(reads) == READS  # each batch was stepped on once, whoever died before it
    checked = 0
    for read in reads:
        for other, history in enumerate(histories):
            # Where another stood in line is known only while it was at work throughout.
            last = read.steps[other]
            if other == read.life or last + 1 >= len(history):
                continue
            at = history[last]
            if at.offset != history[last + 1].offset or at.offset != history[0].offset:
                continue
            checked += 1
            assert at.clock >= read.clock - staleness, f"{read} has too little of {at}"
    told = f"ssp:{staleness}: {len(reads)} reads by {TRAINERS} trainers, {deaths} deaths, "
    print(f"{told}{checked} pairs checked")  # noqa: T201  (the figures of a soak)
    assert checked > READS
