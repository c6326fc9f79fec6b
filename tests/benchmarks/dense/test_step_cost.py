"""A step with nothing to compute is told whole; two checkouts are compared by pairs."""

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.dense import step_cost
from benchmarks.dense.step_cost import (
    AT_MOST,
    COUNTS,
    ROLES,
    TABLES,
    differing,
    figures_of,
    floor_figures,
    goal_of,
    measure_pairs,
    pair_table,
    ratios_of,
    tables_of,
    told_of,
)
from benchmarks.dense.step_cost_floors import ByHand, computing, kernels
from benchmarks.dense.step_cost_loops import Gauge, Plan, run
from benchmarks.dense.step_cost_models import MODELS, Optimizers, plain_of
from benchmarks.dense.step_cost_models.bare import resnet_shapes
from benchmarks.dense.step_cost_serve import Case, written
from benchmarks.harness.record import ROOT
from benchmarks.harness.watching import watched
from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob

CASE = Case("run", "sync", "dense", blocks=2, steps=5)


def found(us: float = 300.0, trainer: float = 60.0, loss: float = 1.0) -> dict[str, Any]:
    return {
        "us": [us, us],
        "plain us": [100.0, 100.0],
        "loader us": [40.0, 40.0],
        "plain cpu us": 90.0,
        "step us": [200.0, 200.0],
        "cpu us": {"trainer": trainer, "server": 38.0, "coordinator": 2.0},
        "calls": dict.fromkeys(COUNTS[1:], 3.0),
        "memory MiB": {role: [200.0, 300.0] for role in ROLES},
        "messages": {"Push": 2.0, "Tick": 2.0},
        "losses": [loss, 1.0],
    }


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # Adagrad's
@pytest.mark.parametrize("model", MODELS)
def test_all_figures_of_a_step_are_there(tmp_path: Path, model: str) -> None:
    plan = Plan(model, "sync", blocks=2, steps=8)
    with watched() as trips:
        job = EmbeddedJob(JobConfig(run="r", cut_every_s=0.0), tmp_path)
        try:
            one = run(job.session("trainer-0"), plan, Gauge({}), trips)
        finally:
            job.close()
    ours, plain = one["losses"]
    assert ours == pytest.approx(plain, rel=1e-5)
    took = zip(one["us"], one["step us"], strict=True)
    assert all(block_us > step_us > 0 for block_us, step_us in took)
    assert len(one["us"]) == len(one["plain us"]) == plan.blocks
    assert one["cpu us"]["trainer"] > 0
    assert one["cpu us"].keys() == {"trainer", "server", "coordinator"}
    assert one["messages"]["Push"] == 2.0  # with its reply
    assert one["calls"].keys() == {"reads and writes", "sleeps"}
    [(now_mib, most_mib)] = one["memory MiB"].values()  # one process
    assert 0 < now_mib <= most_mib
    rounds = (plan.blocks + 1) * plan.steps
    assert written(tmp_path)["journal records"] >= rounds


def test_a_case_is_told_by_medians_over_its_runs_and_by_the_counted_one() -> None:
    runs = [found(200.0), found(300.0), found(900.0), found(5000.0)]
    told = told_of(runs, [{"computing": 30.0, "kernels": 5.0, "by hand": 40.0}])
    assert (told["us"], told["plain us"], told["over"]) == (300.0, 100.0, 200.0)
    assert (told["step()"], told["server"], told["messages"]) == (200.0, 38.0, 4.0)
    assert (told["sleeps"], told["computing"], told["kernels"]) == (3.0, 30.0, 5.0)
    assert told["by hand"] == 40.0
    assert (told["server now"], told["server most"]) == (200.0, 300.0)
    figures, (ratio, over) = figures_of({CASE: [found(), found()]})
    assert [figure.kind for figure in figures] == ["ours", "floor", "ours"]
    assert ratio.value == pytest.approx(1 / 3)
    assert (over.value, over.unit, over.verdict) == (200.0, "us", "reached")


@pytest.mark.parametrize(
    ("place", "model", "plain_us", "goal"),
    [
        ("embedded", "language", 50_000.0, "jobs"),
        ("embedded", "logistic", 110.0, "over-jobs"),
        ("run", "logistic", 110.0, ""),
        ("embedded", "lookups", 4000.0, "lookups"),
        ("embedded", "tensors", 1300.0, "over-embedded-tensors"),
        ("run", "rows", 100.0, ""),
    ],
)
def test_what_is_wanted_follows_from_the_case(
    place: str, model: str, plain_us: float, goal: str
) -> None:
    assert goal_of(Case(place, "sync", model, 1, 1), plain_us) == goal


def test_another_loss_than_the_plain_loops_is_told_but_for_a_batch_behind() -> None:
    behind = CASE._replace(pace="async:pull=2")
    (told,) = differing({CASE: [found(loss=1.1)], behind: [found(loss=1.1)]})
    assert told.startswith("run, sync, dense: loss 1.1")
    assert not differing({CASE: [found()]})


def test_a_pair_is_one_ratio_without_roles_of_next_to_no_time() -> None:
    ratios = ratios_of(found(us=330.0, trainer=90.0), found())
    assert ratios == pytest.approx(
        {"wall": 1.1, "trainer": 1.5, "server": 1.0, "together": 1.3}
    )


def test_checkouts_take_turns_and_are_held_to_their_medians() -> None:
    asked: list[str] = []

    def side(name: str, trainer: float) -> step_cost.Ask:
        def ask(_: Case) -> dict[str, Any]:
            asked.append(name)
            return found(trainer=trainer)

        return ask

    pairs = measure_pairs([CASE], 2, side("now", 60.0 * 1.1), side("before", 60.0))
    assert asked == ["now", "before", "before", "now"]
    told, is_kept = pair_table(pairs)
    assert not is_kept
    assert [line.split()[3] for line in told.splitlines() if line.endswith("above")] == [
        *("trainer", "together"),
    ]
    assert pair_table({CASE: {"wall": [0.9, AT_MOST, 1.5]}})[1]


def test_what_is_told_of_cases_stands_in_lines_of_100_columns() -> None:
    floors = [{"computing": 12345.0, "kernels": 12345.0, "by hand": 12345.0}]
    told = told_of([found(12345.0), found(12345.0)], floors)
    assert all(name in told for heads in TABLES.values() for name in heads)
    others = [f"{role} {when}" for role in ROLES[1:] for when in ("now", "most")]
    alone = {name: value for name, value in told.items() if name not in others}
    cases = {"embedded, async:pull=2, lookups": alone, "run, sync, lookups": told}
    tables = tables_of(cases)
    assert max(len(line) for one in tables for line in one.splitlines()) <= 100
    assert tables[1].splitlines()[1].split()[3:] == ["90", "60", "200", "300", "38", "2"]


def test_floors_are_of_each_model_and_of_none() -> None:
    ran = {"an empty round trip": 50.0, "computing": 30.0, "kernels": 5.0, "by hand": 40.0}
    figures = floor_figures({"dense": [ran, ran], "rows": [ran]})
    assert {(one.what, len(one.values)) for one in figures} == {
        *(("an empty round trip", 3), ("computing, dense", 2), ("kernels, dense", 2)),
        *(("computing, rows", 1), ("kernels, rows", 1)),
        *(("by hand, dense", 2), ("by hand, rows", 1)),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # Adagrad's
@pytest.mark.parametrize("model", MODELS)
def test_the_kernels_of_a_model_change_all_that_it_learns(model: str) -> None:
    plain = plain_of(model)
    batch = plain.draw(plain.batch)
    computing(plain, batch)()
    assert all(one.grad is not None for one in plain.parameters())
    assert len(kernels(plain)()) == (plain.rows is not None) + (plain.linear is not None)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # Adagrad's
@pytest.mark.parametrize("model", MODELS)
def test_what_is_done_by_hand_learns_as_the_plain_loop_does(model: str) -> None:
    by_hand, plain = ByHand(model), plain_of(model)
    own = Optimizers(plain)
    for number in range(4):
        some = slice(number * plain.batch, (number + 1) * plain.batch)
        features, ids, targets = (one[some] for one in by_hand.records)
        batch = features, ids, targets
        before = plain.loss(batch)
        before.backward()  # type: ignore[no-untyped-call]  # torch's door
        own.step()
        own.zero_grad()
        by_hand.step()
        with torch.no_grad():
            after, loss = float(plain.loss(batch)), float(by_hand.model.loss(batch))
        assert after != before.item()
        assert loss == pytest.approx(after, rel=1e-5)


def test_tensors_are_those_of_a_resnet_50() -> None:
    shapes = list(resnet_shapes(1))
    assert len(shapes) == len(list(plain_of("tensors").parameters())) == 161
    numbers = sum(math.prod(shape) for shape in shapes)
    assert numbers == 25_557_032 + 24 * 2049  # but for 24 classes more


def test_every_model_can_be_asked_for() -> None:
    assert {*step_cost.MODELS, *step_cost.ASKED} == set(MODELS)


NEEDED = ("environments", "processes", "record", "watching")


@pytest.mark.slow
def test_a_checkout_without_these_models_can_be_compared_with(tmp_path: Path) -> None:
    harness = tmp_path / "benchmarks" / "harness"
    harness.mkdir(parents=True)
    for name in NEEDED:
        shutil.copy(ROOT / "benchmarks" / "harness" / f"{name}.py", harness)
    files = [step_cost.SERVE, step_cost.SERVE.with_name("step_cost_loops.py")]
    load = "import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file)"
    path = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    subprocess.run(
        [sys.executable, "-P", "-c", load, *map(str, files)],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
