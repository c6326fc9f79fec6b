"""Whatever goes wrong, in any order: exactly once, atomic rounds, nothing lost."""

import os

import pytest

from paceline.config import Async, Pace, Sync
from paceline.simulate.faults import QUIET
from paceline.simulate.job import SimJob, draw_job, run_job

# `make soak` sets PACELINE_SIM_SEEDS=20000
NUM_SEEDS = int(os.environ.get("PACELINE_SIM_SEEDS", "1000"))
GROUP = 50


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NUM_SEEDS, GROUP))
def test_no_seed_breaks_a_promise(first: int) -> None:
    happened: dict[str, int] = {}
    for seed in range(first, min(first + GROUP, NUM_SEEDS)):
        report = run_job(draw_job(seed))
        for fault, times in report.faults.items():
            happened[fault] = happened.get(fault, 0) + times
        for name in ("duplicates", "prepared_dropped", "fenced", "timelines", "rounds"):
            happened[name] = happened.get(name, 0) + getattr(report, name)
    expected = {
        *("loss", "repeat", "slow", "freeze"),
        *("crash_trainer", "crash_server", "crash_coordinator"),
        *("duplicates", "prepared_dropped", "fenced", "timelines", "rounds"),
    }
    missing = {name for name in expected if not happened.get(name)}
    assert not missing, f"seeds {first}..: nothing was proved about {missing}: {happened}"


def test_a_seed_replays_exactly() -> None:
    assert run_job(draw_job(7)) == run_job(draw_job(7))


@pytest.mark.parametrize(
    "paces",
    [(Sync(),), (Async(),), (Async(push_every=4, pull_every=8),), (Sync(), Async())],
)
def test_an_undisturbed_job_refuses_and_drops_nothing(paces: tuple[Pace, ...]) -> None:
    report = run_job(SimJob(1, paces=paces, rates=QUIET))
    assert not report.faults
    assert (report.duplicates, report.prepared_dropped, report.fenced) == (0, 0, 0)
    assert report.timelines == 0
