"""Cells of a rotation, whatever goes wrong: each once a round, and no block with two."""

import os
from collections import Counter
from random import Random

import pytest

from paceline.config import SSP, Async, Pace, Sync
from paceline.messages.rotation import RotationSpec
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, draw_job, run_job

NUM_SEEDS = max(10, int(os.environ.get("PACELINE_SIM_SEEDS", "240")) // 20)
PACES: list[tuple[Pace, ...]] = [(Async(),), (Async(), SSP(2)), (Sync(),)]


def draw_rotation(seed: int) -> SimJob:
    """A random job whose tasks are cells, some of them empty."""
    random, drawn = Random(seed), draw_job(seed)
    parts, blocks = random.choice([1, 2, 3, 4]), random.choice([1, 2, 4, 7])
    sizes = tuple(random.choice([0, 1, 2, 5]) for _ in range(parts * blocks))
    return drawn._replace(
        paces=random.choice(PACES),
        records=sum(sizes),
        rotation=RotationSpec(0, parts, blocks, sizes, random.choice([1, 2])),
        changes=(),
        evaluations=0,
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_seed_leaves_a_cell_out_or_gives_a_block_to_two() -> None:
    happened: Counter[str] = Counter()
    for seed in range(NUM_SEEDS):
        job = draw_rotation(seed)
        if job.records == 0:
            continue
        happened.update(run_job(job).faults)
    print(f"{NUM_SEEDS} seeds: {dict(happened)}")  # noqa: T201  (the figures of a soak)
    missing = {"crash_trainer", "crash_coordinator", "loss"} - happened.keys()
    assert not missing, f"nothing was proved about {missing}: {happened}"


def test_a_rotation_undisturbed_ends() -> None:
    rotation = RotationSpec(0, 3, 6, (2,) * 18, 2)
    job = SimJob(0, rates=QUIET, records=36, rotation=rotation, paces=(Async(),), epochs=4)
    assert run_job(job).faults == {}
