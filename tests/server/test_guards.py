"""Guards at a server: the formulas of the papers to the bit, one verdict for a push."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import SGD, Async, Guards, Pace, Sync
from paceline.ids import TaskKey
from paceline.messages.data import Pushed
from paceline.messages.server import Fence, FenceReport
from paceline.messages.shared import Hyper, OptimizerSpec, PartPlan, VoidSpan
from tests.server.conftest import (
    SGD_1,
    Rows,
    Server,
    contribution,
    make_plan,
    verdict,
    window,
)

AGES = [0, 1, 2, 5, 3, 0, 40]
KINDS: list[tuple[str, Hyper]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01}),
    ("RAdam", {"lr": 0.01}),
    ("Adamax", {"lr": 0.01}),
    ("Adadelta", {"lr": 0.5}),
]
_FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
Make = Callable[..., Server]


def _gradient(step: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(step).normal(size=6)


def _torch_loop(kind: str, hyper: Hyper, rates: list[float]) -> np.ndarray[Any, Any]:
    """Six numbers from zero, by torch alone, each step at a rate of its own."""
    values = torch.zeros(6, dtype=torch.float64)
    options: dict[str, Any] = {**hyper, **({"fused": True} if kind in _FUSED else {})}
    optimizer = getattr(torch.optim, kind)([values], **options)
    for step, rate in enumerate(rates):
        optimizer.param_groups[0]["lr"] = options["lr"] * rate
        values.grad = torch.from_numpy(_gradient(step))
        optimizer.step()
    return values.numpy()


@pytest.mark.parametrize(("kind", "hyper"), KINDS)
def test_a_step_by_age_is_torchs_with_that_learning_rate_to_the_bit(
    kind: str, hyper: Hyper, make_server: Make
) -> None:
    pace = Async(guards=Guards(scale=0.5))
    server = make_server(plan=make_plan(pace=pace, optimizer=OptimizerSpec(kind, (hyper,))))
    for step, age in enumerate(AGES):
        base, blocks = step - age, {0: _gradient(step)}
        server.push(step + 1, window(step), blocks=blocks, base=base)
    rates = [1.0 / max(1, age) ** 0.5 for age in AGES]
    np.testing.assert_array_equal(server.pull()[0], _torch_loop(kind, hyper, rates))


@pytest.mark.parametrize(
    "pace", [Async(guards=Guards(warmup=4)), Sync(guards=Guards(warmup=4))]
)
def test_a_warm_up_is_the_same_in_every_pace(pace: Pace, make_server: Make) -> None:
    hyper: Hyper = {"lr": 0.01}
    server = make_server(
        plan=make_plan(pace=pace, optimizer=OptimizerSpec("Adam", (hyper,)))
    )
    for step in range(6):
        blocks, pushed = {0: _gradient(step)}, window(step)
        if isinstance(pace, Sync):
            server.push(step + 1, pushed, blocks=blocks, round=step + 1)
            server.commit(step + 1, contribution(step + 1, pushed, 1.0))
        else:
            server.push(step + 1, pushed, blocks=blocks, base=step)
    rates = [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    np.testing.assert_array_equal(server.pull()[0], _torch_loop("Adam", hyper, rates))


@pytest.mark.parametrize("isolation", ["serial", "hogwild"])
def test_rows_take_shorter_steps_too(isolation: str, make_server: Make) -> None:
    pace = Async(isolation=isolation, guards=Guards(scale=1))  # type: ignore[arg-type]  # one of the two
    server = make_server(plan=make_plan(pace=pace, rows=SGD(lr=1.0)))
    ones = Rows([3], np.ones((1, 2)))
    for step, base in enumerate([0, 1, 0, 0]):  # of ages 0, 0, 2 and 3
        server.push(step + 1, window(step), rows=ones, base=base)
    expected = -(1 + 1 + 1 / 2 + 1 / 3)
    np.testing.assert_allclose(server.pull_rows([3]), [[expected] * 2], rtol=1e-6)


def _compensating(optimizer: OptimizerSpec) -> PartPlan:
    """A part without rows, compensated by half."""
    plan = make_plan(pace=Async(guards=Guards(compensate=0.5)), optimizer=optimizer)
    spec = msgspec.structs.replace(plan.spec, tables=())
    return msgspec.structs.replace(plan, spec=spec)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_compensated_gradient_is_the_papers_to_the_bit(
    kind: str, make_server: Make
) -> None:
    server = make_server(plan=_compensating(OptimizerSpec(kind, ({"lr": 0.1},))))
    values = torch.zeros(6, dtype=torch.float64)
    optimizer = getattr(torch.optim, kind)([values], lr=0.1, fused=True)
    history = [values.clone()]
    for step, age in enumerate([0, 1, 2, 1, 4, 0]):
        then, g = history[step - age], torch.from_numpy(_gradient(step))
        numbers = {"blocks": {0: g.numpy()}, "then": {0: then.numpy()}}
        server.push(step + 1, window(step), base=step - age, **numbers)
        values.grad = g + 0.5 * g * g * (values - then)
        optimizer.step()
        history.append(values.clone())
    np.testing.assert_array_equal(server.pull()[0], values.numpy())


def test_a_gradient_without_its_values_is_not_compensated(make_server: Make) -> None:
    server = make_server(plan=_compensating(SGD_1))
    assert verdict(server.push(1, window(0), blocks=ONES)) == "invalid"
    strange = {0: np.zeros(6), 1: np.zeros(4)}
    assert verdict(server.push(1, window(0), blocks=ONES, then=strange)) == "invalid"
    assert verdict(server.push(1, window(0))) == "applied", "it has no gradient"


def test_values_come_along_only_where_the_pace_wants_them(make_server: Make) -> None:
    server = make_server(plan=make_plan())
    refused = server.push(1, window(0), blocks=ONES, then={0: np.zeros(6)})
    assert verdict(refused) == "invalid"


def test_pushes_merge_only_where_their_ages_agree(make_server: Make) -> None:
    pace = Async(merge=4, guards=Guards(scale=1))
    server = make_server(plan=make_plan(pace=pace))
    ones = {0: np.ones(6)}
    for step, base in enumerate([0, 0, 0]):
        server.push(step + 1, window(step), blocks=ones, base=base)
    np.testing.assert_array_equal(server.pull()[0], [-(1 + 1 + 1 / 2)] * 6)


def test_ages_are_counted_in_few_lines(make_server: Make) -> None:
    server = make_server(plan=make_plan())
    for step, base in enumerate([0, 0, 0, 0, 0]):
        server.push(step + 1, window(step), base=base)
    report = server.coordinator.order(until=lambda r: r.parts[0].version == 5)
    found = {n: c for n, c in report.counters.items() if ".age." in n}
    assert found == {
        "part-0.age.0": 1, "part-0.age.1": 1, "part-0.age.2-3": 2, "part-0.age.4-7": 1,
    }  # fmt: skip


# ------------------------------------------------------------------ one verdict


def _marks_of(server: Server, trainer: int) -> FenceReport:
    """What a server says when it fences a trainer: its marks and voids of task 0."""
    fence = Fence(incarnation=trainer, keys=(TaskKey(0, 0, 0),), rounds={})
    report = server.coordinator.order(fence, until=lambda r: bool(r.answers))
    [answer] = [one for one in report.answers if isinstance(one, FenceReport)]
    return answer


@pytest.fixture
def bounded(make_server: Make) -> Server:
    return make_server(plan=make_plan(pace=Async(guards=Guards(drop=1))))


ONES = {0: np.ones(6)}


def test_what_is_too_old_counts_without_effect(bounded: Server) -> None:
    for step in range(3):
        pushed = bounded.push(step + 1, window(step), blocks=ONES, base=0, is_judged=True)
        assert verdict(pushed) == ("void" if step == 2 else "applied")
    np.testing.assert_array_equal(bounded.pull()[0], [-2.0] * 6)
    assert bounded.version() == 2, "a push without effect is no update"
    again = bounded.push(3, window(2), blocks=ONES, base=0, is_judged=True)
    assert verdict(again) == "void", "who asks again is told the same"
    later = bounded.push(1, window(2), blocks=ONES, trainer=12)
    assert verdict(later) == "void", "so is who trains its batches again"
    np.testing.assert_array_equal(bounded.pull()[0], [-2.0] * 6)
    report = bounded.coordinator.order(until=lambda r: r.parts[0].version == 2)
    assert (report.counters["old"], report.counters["old_records"]) == (1, 1)


def test_only_the_server_that_is_asked_judges(bounded: Server) -> None:
    for step in range(3):
        pushed = bounded.push(step + 1, window(step), blocks=ONES, base=0)
        assert verdict(pushed) == "applied"


def test_a_void_is_told_with_the_marks(bounded: Server) -> None:
    bounded.push(1, window(0, 2), blocks=ONES, base=0)
    bounded.push(2, window(3), is_void=True)
    bounded.push(3, window(4, 5), is_void=True)
    [entry] = _marks_of(bounded, 11).marks
    assert entry.marks == (5,)
    assert entry.voids == (VoidSpan(0, 3, 5),)


def test_what_is_to_be_trained_again_leaves_no_trace(make_server: Make) -> None:
    pace = Async(guards=Guards(drop=0, old="again"))
    server = make_server(plan=make_plan(pace=pace))
    server.push(1, window(0, task=1), blocks=ONES, base=0, is_judged=True, trainer=12)
    for _ in range(2):
        pushed = server.push(1, window(0), blocks=ONES, base=0, is_judged=True)
        assert verdict(pushed) == "again"
    fresh = server.push(2, window(0), blocks=ONES, base=1, is_judged=True)
    assert verdict(fresh) == "applied"
    np.testing.assert_array_equal(server.pull()[0], [-2.0] * 6)


def test_a_push_without_effect_has_no_numbers(bounded: Server) -> None:
    refused = bounded.push(1, window(0), blocks=ONES, is_void=True)
    assert verdict(refused) == "invalid"


def test_a_push_of_a_round_without_effect_is_counted_with_its_round(
    make_server: Make,
) -> None:
    server = make_server(plan=make_plan(pace=Sync()))
    pushed = server.push(1, window(0), round=1, is_void=True)
    assert isinstance(pushed, Pushed)
    assert pushed.verdict == "prepared"
    report = server.commit(1, contribution(1, window(0), 1.0))
    assert (report.counters["void"], report.counters["void_records"]) == (1, 1)
    np.testing.assert_array_equal(server.pull()[0], [0.0] * 6)
