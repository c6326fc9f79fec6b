"""`auto` in a forecast: the decisions of a job, in virtual time."""

from msgspec.structs import replace

from paceline.config import Auto, Sync
from paceline.forecast.job import forecast
from paceline.forecast.models import Fixed, Slow
from paceline.forecast.plan import Plan

PLAN = Plan(
    trainers=4,
    steps=200,
    compute=Slow(0.1, 4.0, 1),
    cut_every_s=0,
    pace=Auto(least_s=5.0),
)


def test_one_slow_trainer_makes_it_loosen_and_the_others_go_ahead() -> None:
    sync, auto = forecast(replace(PLAN, pace=Sync())), forecast(PLAN)
    assert auto.outcomes["PaceChanged"] == 4
    assert auto.records_per_second > 1.3 * sync.records_per_second
    assert auto.records == sync.records


def test_it_goes_no_further_than_it_may() -> None:
    bounded = forecast(replace(PLAN, pace=Auto(least_s=5.0, loosest="ssp:1")))
    assert bounded.outcomes["PaceChanged"] == 1


def test_where_nobody_waits_it_stays_in_lockstep() -> None:
    alike = forecast(replace(PLAN, compute=Fixed(0.1)))
    assert alike.outcomes.get("PaceChanged", 0) == 0
