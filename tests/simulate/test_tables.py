"""Windows of tables of the user's own, in virtual time: as a model's, whoever dies."""

import pytest

from paceline.config import SSP, Async, Pace, Sync
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, draw_job, run_job

PACES: list[Pace] = [Async(), Async(push_every=3), SSP(staleness=1), Sync(reduce="sum")]


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_an_undisturbed_table_refuses_and_drops_nothing(pace: Pace) -> None:
    job = SimJob(1, paces=(pace, Async()), tables=frozenset({0, 1}), rates=QUIET)
    report = run_job(job)
    assert (report.duplicates, report.prepared_dropped, report.fenced) == (0, 0, 0)
    assert report.timelines == 0


@pytest.mark.parametrize("pace", PACES, ids=str)
def test_a_model_and_a_table_count_each_batch_once_whoever_dies(pace: Pace) -> None:
    job = SimJob(1, paces=(pace, Async()), tables=frozenset({0}))
    assert run_job(job).faults["crash_trainer"]


def test_seeds_draw_tables_and_models() -> None:
    jobs = [draw_job(seed) for seed in range(30)]
    assert any(job.tables for job in jobs)
    assert any(not job.tables for job in jobs)
