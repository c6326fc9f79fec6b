"""Slower trainers take fewer local steps, in proportion to their measured speed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import AsyncDiLoCo
from paceline.coordinator.ledgers.figures import Speeds, decide_steps
from paceline.messages.trainer import AskLease

SPEED = st.floats(1e-6, 1e6)


def test_half_as_fast_is_half_as_many() -> None:
    assert decide_steps(20, 1.0, 2.0) == 10
    assert decide_steps(20, 1 / 3.33, 1 / 0.58) == 3
    assert decide_steps(20, 0.001, 2.0) == 1


@given(st.integers(1, 1000), SPEED, SPEED)
def test_nobody_takes_more_than_the_fastest_or_none(
    every: int, one: float, other: float
) -> None:
    fastest = max(one, other)
    assert 1 <= decide_steps(every, one, fastest) <= every
    assert decide_steps(every, fastest, fastest) == every


def test_speed_is_learnt_from_deltas() -> None:
    speeds = Speeds()
    for trainer in (1, 2):
        speeds.enters(trainer, 0.0)
    speeds.came(1, 1, 20, 10.0)
    assert speeds.steps_of(1, 20) == 20
    assert speeds.steps_of(2, 20) == 20, "nothing is known of it"
    speeds.came(2, 1, 20, 40.0)
    assert speeds.steps_of(2, 20) == 5
    speeds.came(2, 1, 20, 40.5)
    assert speeds.steps_of(2, 20) == 5, "its answer was lost, and it asked again"


def test_a_pause_without_work_is_no_slowness() -> None:
    speeds = Speeds()
    for trainer in (1, 2):
        speeds.enters(trainer, 0.0)
        speeds.came(trainer, 1, 10, 10.0)
    speeds.rests(2)
    speeds.enters(2, 1000.0)
    speeds.came(2, 2, 10, 1010.0)
    assert speeds.steps_of(2, 10) == 10


def test_who_is_gone_is_no_measure_of_others() -> None:
    speeds = Speeds()
    for trainer, ended_s in ((1, 1.0), (2, 10.0)):
        speeds.enters(trainer, 0.0)
        speeds.came(trainer, 1, 10, ended_s)
    assert speeds.steps_of(2, 10) == 1
    speeds.forget(1)
    assert speeds.steps_of(2, 10) == 10


@pytest.mark.parametrize("adapt", [True, False])
def test_a_tick_says_how_many_the_next_delta_has(make_job: Any, adapt: bool) -> None:
    job = make_job(trainers=2, pace=AsyncDiLoCo(every=4, adapt=adapt), timeout_s=60.0)
    names = ("trainer-0", "trainer-1")
    job.open(*names)
    asked = {name: job.ask(name, AskLease(**job.who(name), stage=0)) for name in names}
    job.serve()
    leases = {name: job.answers[ticket].lease for name, ticket in asked.items()}
    job.wait(1)
    quick = job.tick("trainer-0", leases["trainer-0"], 0, 3)
    job.wait(1)
    slow = job.tick("trainer-1", leases["trainer-1"], 0, 3)
    assert (quick.steps, slow.steps) == ((4, 2) if adapt else (None, None))
