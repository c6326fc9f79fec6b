"""The CTR benchmark compares equals, and says where the time goes."""

from pathlib import Path

import pytest
import torch

from benchmarks.ctr.compare import (
    AHEAD,
    FIELDS,
    FLOOR,
    OURS,
    PLAIN,
    Candidate,
    Trained,
    best_plain,
    compare_losses,
    draw_records,
    figures_of,
    ratios_of,
)
from benchmarks.ctr.loops import Batch, Plan, held_out_loss, run_paceline, run_plain
from paceline.config import Async, JobConfig
from paceline.launch.embedded import EmbeddedJob

IDS = 500
PLAN = Plan(ids=IDS, batch=64, warm=2, timed=6, rows="adam")


def data() -> tuple[Batch, Batch]:
    """Records to train on, and as many held out."""
    stop = (PLAN.warm + PLAN.timed) * PLAN.batch
    arrays = draw_records(2 * stop, seed=0, ids=IDS)
    ids, labels = torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["labels"])
    return (ids[:stop], labels[:stop]), (ids[stop:], labels[stop:])


def run(rate: float, loss: float = 0.5) -> Trained:
    return Trained(rate, loss, {})


def test_records_have_ids_in_range_and_each_field_its_own_frequent_ones() -> None:
    ids = draw_records(4000, seed=1, ids=1000)["ids"]
    assert ids.shape == (4000, FIELDS)
    assert ids.min() >= 0
    assert ids.max() < 1000
    most_frequent = {int(torch.from_numpy(column).mode().values) for column in ids.T}
    assert len(most_frequent) == FIELDS


def test_a_label_follows_from_the_ids() -> None:
    arrays = draw_records(4000, seed=1, ids=50)
    ids, labels = torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["labels"])
    counts = torch.nn.functional.one_hot(ids, 50).sum(1).float()
    weights = torch.linalg.lstsq(counts, labels[:, None] - labels.mean()).solution
    explained = (counts @ weights).squeeze(1)
    assert torch.corrcoef(torch.stack([explained, labels]))[0, 1] > 0.3


def test_the_peer_is_the_fastest_plain_loop_of_at_most_so_many_threads() -> None:
    runs = {candidate: [run(10.0)] for candidate in (*PLAIN, FLOOR, OURS)}
    runs[Candidate("dense", 1)] = [run(5.0), run(20.0), run(30.0)]
    runs[Candidate("sparse", 2)] = [run(19.0)]
    assert best_plain(runs, 1) == best_plain(runs, 2) == Candidate("dense", 1)
    runs[Candidate("sparse", 2)] = [run(21.0)]
    assert best_plain(runs, 1) == Candidate("dense", 1)
    assert best_plain(runs, 2) == Candidate("sparse", 2)


@pytest.mark.parametrize(("loss", "is_equal"), [(0.504, True), (0.506, False)])
def test_losses_are_equal_within_one_percent(loss: float, is_equal: bool) -> None:
    runs = {candidate: [run(10.0)] for candidate in (*PLAIN, OURS)}
    runs[OURS] = [run(99.0, loss)]
    assert compare_losses(runs)[0] == {OURS: is_equal}


def test_a_pace_that_learns_less_is_not_judged() -> None:
    runs = {candidate: [run(10.0)] for candidate in (*PLAIN, FLOOR, OURS)}
    runs[AHEAD] = [run(99.0, 0.506)]
    equal, _ = compare_losses(runs)
    assert equal == {OURS: True, AHEAD: False}
    ratios = ratios_of(runs, figures_of(runs, "adam"), equal)
    assert [ratio.against.partition(":")[0] for ratio in ratios] == ["async", "async"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["adam", "adagrad"])
def test_all_candidates_learn_the_same(tmp_path: Path, rows: str) -> None:
    trained, held_out = data()
    plan = PLAN._replace(rows=rows)
    job = EmbeddedJob(JobConfig(run="r", pace=Async(), cut_every_s=0.0), tmp_path / "job")
    try:
        session = job.session("trainer-0")
        model, watch = run_paceline(session, trained, plan)
        ours = held_out_loss(model, held_out)
    finally:
        job.close()
    assert watch.seconds > 0

    for kind in ("sparse", "dense"):
        model, watch = run_plain(kind, trained, plan)
        assert watch.seconds > 0
        assert held_out_loss(model, held_out) == pytest.approx(ours, rel=0.01)
