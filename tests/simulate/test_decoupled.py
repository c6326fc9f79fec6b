"""DiLoCo that waits for some or for none: every batch once, whoever dies or is behind."""

import os
from random import Random

import msgspec
import pytest

from paceline.config import Async, AsyncDiLoCo, DiLoCo, Pace, Sync
from paceline.forecast.job import forecast
from paceline.forecast.models import Slow
from paceline.forecast.plan import Plan
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, draw_job, run_job

SEEDS = int(os.environ.get("PACELINE_SIM_SEEDS", "240")) // 4


def draw_decoupled(seed: int) -> SimJob:
    """Up to six trainers of which a few make a round, or none, with joins and deaths."""
    random = Random(seed)
    pace = DiLoCo(
        every=random.choice([1, 3, 7]),
        quorum=random.choice([1, 2, 3]),
        grace=random.choice([0.0, 0.2, "auto"]),
    )
    alone = AsyncDiLoCo(every=random.choice([1, 3, 7]), delay=2)
    paces: list[tuple[Pace, ...]] = [(pace,), (pace, Async()), (alone,), (alone, Sync())]
    return draw_job(seed)._replace(
        trainers=random.choice([1, 2, 3, 6]),
        paces=random.choice(paces),
        records=random.choice([60, 120]),
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_batch_counts_once_whoever_dies() -> None:
    crashes, rounds = 0, 0
    for seed in range(SEEDS):
        report = run_job(draw_decoupled(seed))
        crashes += report.faults.get("crash_trainer", 0)
        rounds += report.rounds
    print(f"{crashes} trainers died in {rounds} rounds of {SEEDS} jobs")  # noqa: T201  (the figures of a soak)
    assert crashes > SEEDS / 2, "deaths are what this is about"


def test_an_undisturbed_job_drops_and_repeats_nothing() -> None:
    pace = DiLoCo(every=3, quorum=1, grace=0.0)
    report = run_job(SimJob(1, trainers=4, paces=(pace,), rates=QUIET))
    assert (report.duplicates, report.prepared_dropped, report.fenced) == (0, 0, 0)
    together = run_job(SimJob(1, trainers=4, paces=(DiLoCo(every=3),), rates=QUIET))
    assert report.rounds > together.rounds, "rounds of fewer are more"


def test_a_job_with_a_quorum_replays_exactly() -> None:
    job = draw_decoupled(3)
    assert run_job(job) == run_job(job)


def test_a_forecast_says_what_a_quorum_is_worth_beside_a_slow_trainer() -> None:
    plan = Plan(trainers=4, steps=200, compute=Slow(0.1, 4.0, 1))
    paces = DiLoCo(every=10), DiLoCo(every=10, quorum=3), AsyncDiLoCo(every=10)
    together, some, none = [forecast(msgspec.structs.replace(plan, pace=p)) for p in paces]
    assert some.records == none.records == together.records
    assert some.records_per_second > 1.5 * together.records_per_second
    assert none.records_per_second > some.records_per_second
    computing = [one.spells["computing"] for one in (together, some, none)]
    assert computing == sorted(set(computing)), "who waits less computes more"
