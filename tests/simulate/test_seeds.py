"""Whatever goes wrong, in any order: exactly once, atomic rounds, nothing lost.

`make test` looks at 240 seeds, or as many as a slow machine can in `SECONDS`; `make
soak` at all of 20,000. The number looked at is printed.
"""

import os
import time
from collections import Counter

import pytest

from paceline.config import SSP, Async, LocalSGD, Pace, Sync
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, draw_job, run_job
from tests.simulate.operator import PaceChange

NUM_SEEDS = int(os.environ.get("PACELINE_SIM_SEEDS", "240"))
SECONDS = float(os.environ.get("PACELINE_SIM_SECONDS", "240"))
NUM_GROUPS = 4
FEWEST = 10  # of a group, whatever the machine


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("group", range(NUM_GROUPS))
def test_no_seed_breaks_a_promise(group: int) -> None:
    ends_s = time.monotonic() + SECONDS / NUM_GROUPS
    happened: Counter[str] = Counter()
    for seed in range(group, NUM_SEEDS, NUM_GROUPS):
        if happened["seeds"] >= FEWEST and time.monotonic() > ends_s:
            break
        report = run_job(draw_job(seed))
        happened.update(report.faults)
        happened["seeds"] += 1
        for name in (
            "duplicates",
            "prepared_dropped",
            "fenced",
            "timelines",
            "skipped",
            "rounds",
            "changes",
        ):
            happened[name] += getattr(report, name)
    print(f"group {group}: {dict(happened)}")  # noqa: T201  (the figures of a soak)
    expected = {"loss", "repeat", "slow", "crash_trainer", "crash_coordinator", "rounds"}
    if happened["seeds"] >= NUM_SEEDS // NUM_GROUPS:
        expected |= {"freeze", "crash_server", "timelines", "damage", "skipped"}
        expected |= {"duplicates", "prepared_dropped", "fenced"}
    if group == NUM_GROUPS - 1:  # the seeds that draw some
        expected |= {"changes"}
    missing = {name for name in expected if not happened[name]}
    assert not missing, f"nothing was proved about {missing}: {happened}"


def test_a_seed_replays_exactly() -> None:
    assert run_job(draw_job(7)) == run_job(draw_job(7))


def test_a_script_that_must_begin_again_is_started_again() -> None:
    """Seed 1012 once ended with all before the loop, and nobody left to evaluate.

    Which messages a seed loses changes with how many there are: in 1011 a cut that all had
    to return to could not be read.
    """
    run_job(draw_job(1012))
    assert run_job(draw_job(1011)).skipped


@pytest.mark.parametrize(
    "paces",
    [(Sync(),), (Async(),), (Async(push_every=4, pull_every=8),), (Sync(), Async())],
)
def test_an_undisturbed_job_refuses_and_drops_nothing(paces: tuple[Pace, ...]) -> None:
    report = run_job(SimJob(1, paces=paces, rates=QUIET))
    assert not report.faults
    assert (report.duplicates, report.prepared_dropped, report.fenced) == (0, 0, 0)
    assert report.timelines == 0


@pytest.mark.parametrize("is_tracked", [False, True])
@pytest.mark.parametrize("backup", [0, 1])
def test_an_undisturbed_job_goes_through_all_paces_and_drops_only_what_may_be_late(
    backup: int, is_tracked: bool
) -> None:
    paces: list[Pace] = [
        SSP(staleness=2),
        Async(),
        Sync(),
        Async(push_every=4, pull_every=8),
        LocalSGD(every=4),
        Sync(backup=backup, late="again") if backup else LocalSGD(every=2),
        SSP(staleness=0),
        Sync(),
    ]
    changes = tuple(PaceChange(0.2 + 0.3 * n, pace) for n, pace in enumerate(paces))
    job = SimJob(1, rates=QUIET, changes=changes, epochs=6, is_tracked=is_tracked)
    report = run_job(job)
    assert report.changes == report.timelines == len(paces)
    assert (report.duplicates, report.fenced) == (0, 0)
    assert backup or not report.prepared_dropped
