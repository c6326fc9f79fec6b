"""The dense benchmark compares equals: the same batches, the same model afterwards."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.dense.compare import (
    DDP,
    FLOOR,
    OURS,
    Trained,
    coded,
    compare_models,
    distance,
    draw_records,
    ratios_of,
)
from benchmarks.dense.loops import SIDES, Batch, Plan, batches_of, make_model, run_paceline
from paceline.config import JobConfig, Sync
from paceline.launch.embedded import EmbeddedJob

PLAN = Plan(batch=4, warm=2, timed=4, task=3)


def data(plan: Plan) -> Batch:
    arrays = draw_records(SIDES * (plan.warm + plan.timed) * plan.batch, seed=0)
    return torch.from_numpy(arrays["features"]), torch.from_numpy(arrays["labels"])


def run(rate: float, loss: float = 0.5, parameter: float = 1.0) -> Trained:
    return Trained(rate, loss, np.full(4, parameter, np.float32))


def test_the_model_has_as_many_parameters_as_is_said() -> None:
    assert sum(parameter.numel() for parameter in make_model().parameters()) == 1_863_690


def test_sides_take_every_second_task_and_together_all_batches() -> None:
    numbered = torch.arange(48).repeat_interleave(PLAN.batch)
    sides = [
        [int(labels[0]) for _, labels in batches_of(side, (numbered, numbered), PLAN)]
        for side in range(SIDES)
    ]
    assert sides == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]


def test_models_must_have_the_same_loss_and_parameters() -> None:
    runs = {OURS: [run(9.0)], DDP: [run(3.0)]}
    assert compare_models(runs)[0]
    assert not compare_models({**runs, OURS: [run(9.0, loss=0.51)]})[0]
    is_equal, told = compare_models({**runs, OURS: [run(9.0, parameter=1.01)]})
    assert not is_equal
    assert "1.0e-02 of their norm apart" in told


def test_the_distance_is_a_share_of_the_norm() -> None:
    assert distance(
        np.array([3.0, 4.5], np.float32), np.array([3.0, 4.0], np.float32)
    ) == pytest.approx(0.1)


def test_ours_is_compared_with_ddp_and_with_the_floor() -> None:
    runs = {OURS: [run(30.0)], DDP: [run(20.0)], FLOOR: [run(60.0)]}
    against_ddp, against_floor = ratios_of(runs, 64, "dense-64")
    assert (against_ddp.value, against_ddp.verdict) == (1.5, "reached")
    assert (against_floor.value, against_floor.goal) == (0.5, "")


def test_a_codec_is_compared_with_ddp_and_with_its_own_compression() -> None:
    ours, theirs, only_ours = coded(["fp16", "int8"])
    runs = {
        OURS: [run(30.0)],
        DDP: [run(20.0)],
        FLOOR: [run(60.0)],
        ours: [run(40.0)],
        theirs: [run(10.0)],
        only_ours: [run(20.0, loss=0.6)],
    }
    ratios = {(r.ours, r.against): r.value for r in ratios_of(runs, 64, "")}
    assert ratios[ours.who, DDP.who] == 2.0
    assert ratios[ours.who, theirs.who] == 4.0
    assert ratios[only_ours.who, f"{DDP.who} (not equal)"] == 1.0


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two trainers in one process with two threads each would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_two_trainers_make_the_model_of_the_mean_gradient(tmp_path: Path) -> None:
    plan = PLAN._replace(timed=2, task=2)
    records = data(plan)
    config = JobConfig(run="r", trainers=SIDES, pace=Sync(), cut_every_s=0.0)
    job = EmbeddedJob(config, tmp_path / "job")
    models = [make_model() for _ in range(SIDES)]

    def be(side: int) -> None:
        run_paceline(job.session(f"trainer-{side}"), models[side], records, plan)

    try:
        threads = [threading.Thread(target=be, args=(side,)) for side in range(SIDES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        job.close()

    # What DDP does too: the mean of both sides' gradients, then one step of Adam.
    plain = make_model()
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3, fused=True)
    for pair in zip(
        *(batches_of(side, records, plan) for side in range(SIDES)), strict=True
    ):
        for features, labels in pair:
            (cross_entropy(plain(features), labels) / SIDES).backward()
        optimizer.step()
        optimizer.zero_grad()
    for model in models:
        for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(mine, theirs)
