"""A prepared push whose round has closed without it is kept for a later one."""

from collections.abc import Callable

import numpy as np

from paceline.config import DiLoCo
from paceline.messages.server import Fence, FenceReport
from paceline.messages.shared import OptimizerSpec
from tests.server.conftest import (
    Server,
    contribution,
    make_plan,
    task_key,
    verdict,
    window,
)

MakeServer = Callable[..., Server]
OUTER = OptimizerSpec("SGD", ({"lr": 1.0},))
ONES = {0: np.ones(6), 1: np.ones(4)}
MINE, OTHERS = window(0, 4, task=1), window(0, 4, task=2)


def decoupled(make_server: MakeServer) -> Server:
    pace = DiLoCo(every=5, quorum=1, grace=0.0)
    return make_server(plan=make_plan(pace=pace, optimizer=OUTER))


def test_what_missed_its_round_is_applied_with_the_next(make_server: MakeServer) -> None:
    server = decoupled(make_server)
    server.push(1, MINE, blocks=ONES, trainer=11, round=1)
    server.push(1, OTHERS, blocks=ONES, trainer=12, round=1)
    server.commit(1, contribution(1, OTHERS, 1.0, 12))
    assert np.array_equal(server.pull()[0], -np.ones(6))
    assert verdict(server.push(1, MINE, blocks=ONES, trainer=11, round=1)) == "prepared"
    server.commit(2, contribution(1, MINE, 0.5, 11))
    assert np.array_equal(server.pull()[0], -1.5 * np.ones(6))
    assert verdict(server.push(1, MINE, blocks=ONES, trainer=11, round=1)) == "duplicate"


def test_what_comes_when_rounds_have_gone_on_is_prepared(make_server: MakeServer) -> None:
    server = decoupled(make_server)
    for round_ in (1, 2, 3):
        pushed = window(round_ - 1, task=2)
        server.push(round_, pushed, blocks=ONES, trainer=12, round=round_)
        server.commit(round_, contribution(round_, pushed, 1.0, 12))
    assert verdict(server.push(1, MINE, blocks=ONES, trainer=11, round=1)) == "prepared"
    server.commit(4, contribution(1, MINE, 1.0, 11))
    assert np.array_equal(server.pull()[0], -4 * np.ones(6))


def test_the_death_of_its_trainer_drops_it(make_server: MakeServer) -> None:
    server = decoupled(make_server)
    server.push(1, MINE, blocks=ONES, trainer=11, round=1)
    server.push(1, OTHERS, blocks=ONES, trainer=12, round=1)
    server.commit(1, contribution(1, OTHERS, 1.0, 12))
    order = Fence(incarnation=11, keys=(task_key(1),), rounds={0: 1})
    report = server.coordinator.order(order, until=lambda r: bool(r.answers))
    [fenced] = report.answers
    assert isinstance(fenced, FenceReport)
    assert fenced.marks[0].marks == (-1,), "nothing of it was applied"
    again = server.push(1, MINE, blocks=ONES, trainer=13, round=2)
    assert verdict(again) == "prepared"
