"""Fragments under deaths: rounds that take turns keep what one round promises."""

import os

import pytest

from paceline.config import Async, DiLoCo, Pace
from paceline.trainer.protocol.fragments import FragmentSchedule
from tests.simulate.checks import Violation
from tests.simulate.job import draw_job, run_job

SEEDS = int(os.environ.get("PACELINE_SIM_SEEDS", "200"))
HALVES = DiLoCo(every=4, fragments=2)
THIRDS = DiLoCo(every=7, fragments=3, overlap=1)
WHOLE = DiLoCo(every=5, overlap=2)
LONG = DiLoCo(every=12, fragments=2, overlap=4)
PACES: list[tuple[Pace, ...]] = [
    (HALVES, HALVES),
    (THIRDS, THIRDS, THIRDS),
    (WHOLE,),
    (LONG, LONG),
    (Async(), HALVES, HALVES),
    (Async(pull_every=2), LONG, LONG),
]


@pytest.mark.parametrize("paces", PACES, ids=lambda paces: "+".join(map(str, paces)))
def test_each_batch_has_its_effect_once_whoever_dies(paces: tuple[Pace, ...]) -> None:
    reports = [
        run_job(draw_job(seed)._replace(paces=paces)) for seed in range(SEEDS // len(PACES))
    ]
    assert sum(sum(report.faults.values()) for report in reports) > 0
    assert sum(report.rounds for report in reports) > len(reports)


def test_who_enters_at_another_place_of_the_circle_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begins_with_the_first(turns: FragmentSchedule) -> None:
        turns._next = 0

    monkeypatch.setattr(FragmentSchedule, "enter", begins_with_the_first)
    with pytest.raises(Violation, match="not done"):
        _run_some(40)


def _run_some(seeds: int) -> None:
    for seed in range(seeds):
        run_job(draw_job(seed)._replace(paces=(HALVES, HALVES)))
