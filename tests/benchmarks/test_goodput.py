"""The trace of deaths: what a restart is modelled as, and that real deltas count once."""

import pytest
import torch
from torch import nn

from benchmarks.pace.goodput import stop_all
from benchmarks.pace.virtual import Learning, draw_deaths, train
from paceline.config import AsyncDiLoCo, DiLoCo, Pace
from paceline.forecast.models.models import Fixed
from paceline.forecast.plan import Plan

BATCH, RECORDS = 4, 256


def test_without_a_death_nothing_is_lost() -> None:
    stopped = stop_all([], 100.0, 17.5, 30.0)
    assert (stopped.seconds, stopped.goodput, stopped.restarts) == (100.0, 1.0, 0)


def test_a_death_costs_the_restart_and_what_was_done_since_the_checkpoint() -> None:
    stopped = stop_all([(50.0, 3)], 100.0, 17.5, 30.0)
    assert stopped.seconds == 50 + 17.5 + (100 - 30)
    assert stopped.restarts == 1


def test_a_death_while_all_restart_changes_nothing() -> None:
    once = stop_all([(50.0, 3)], 100.0, 17.5, 30.0)
    assert stop_all([(50.0, 3), (60.0, 1)], 100.0, 17.5, 30.0) == once


def test_deaths_are_as_many_as_was_said() -> None:
    deaths = draw_deaths(20.0, 20_000.0, 16, seed=1)
    assert 900 < len(deaths) < 1100
    assert deaths == sorted(deaths)
    assert {index for _, index in deaths} == set(range(16))


class Sum(nn.Module):
    """A number that each batch moves by its records."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(1, dtype=torch.float64))


def counting() -> Learning:
    def loss(model: nn.Module, records: torch.Tensor) -> torch.Tensor:
        assert isinstance(model, Sum)
        return -len(records) * model.all.sum()

    return Learning(
        Sum,
        lambda model: torch.optim.SGD(model.parameters(), lr=1.0),
        loss,
        lambda model: {"all": next(model.parameters()).item()},
    )


def plan_of(pace: Pace, trainers: int) -> Plan:
    return Plan(
        trainers=trainers,
        pace=pace,
        records=RECORDS * trainers,
        batch_size=BATCH,
        compute=Fixed(0.5),
    )


def test_one_trainer_counts_all_records() -> None:
    pace = DiLoCo(every=4, outer_lr=1.0, outer_momentum=0.0)
    found = train(plan_of(pace, 1), counting())
    assert found.curve[-1].told == {"all": RECORDS}
    assert found.goodput == pytest.approx(1.0, abs=0.02)


def test_deltas_without_rounds_add_up_whoever_dies() -> None:
    pace = AsyncDiLoCo(every=4, outer_lr=1.0, outer_momentum=0.0, delay=1)
    deaths = [(3.0, 0), (5.5, 2), (11.0, 1), (12.0, 0)]
    found = train(plan_of(pace, 4), counting(), deaths=deaths, restart_s=3.0)
    assert found.deaths == 4
    assert found.curve[-1].told == {"all": 4 * RECORDS}, "each record is in it once"
    assert found.goodput < 0.95, "what had not been pushed was computed again"


def test_a_round_of_deltas_is_their_mean_by_records() -> None:
    pace = DiLoCo(every=4, outer_lr=1.0, outer_momentum=0.0)
    found = train(plan_of(pace, 4), counting())
    assert found.updates * 4 * BATCH == pytest.approx(RECORDS)
    assert found.curve[-1].told == {"all": RECORDS}, "a mean moves by one trainer's part"


def test_deltas_of_a_quorum_cover_all_records_whoever_dies() -> None:
    pace = DiLoCo(every=4, outer_lr=1.0, outer_momentum=0.0, quorum=2, grace=0.0)
    deaths = [(3.0, 0), (5.5, 2), (11.0, 1), (12.0, 0)]
    found = train(plan_of(pace, 4), counting(), deaths=deaths, restart_s=3.0)
    assert found.deaths == 4
    assert found.batches == 4 * RECORDS // BATCH, "each has had its effect, once"
