"""What peers are handed is what ours trains on; a ratio counts at equal losses only."""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.ctr.compare import FIELDS, HELD_OUT, Trained, draw_records
from benchmarks.ctr.handed import logits_of, mean_loss, read_handed
from benchmarks.ctr.loops import DIM, HALF_WIDTH, Model, Plan
from benchmarks.ctr.peers import (
    OURS,
    PEERS,
    equal_losses,
    figures_of,
    free_ports,
    hand_over,
    ratios_of,
)

PLAN = Plan(ids=300, batch=8, warm=2, timed=3, rows="adam")


def test_what_is_handed_over_comes_back(tmp_path: Path) -> None:
    stop = (PLAN.warm + PLAN.timed) * PLAN.batch
    records = draw_records(stop + 50, seed=0, ids=PLAN.ids)
    job = hand_over(PLAN, records, tmp_path)
    handed = read_handed(tmp_path, job)
    assert job.steps == 5
    assert np.array_equal(handed.batch_ids.reshape(-1, FIELDS), records["ids"][:stop])
    assert np.array_equal(handed.batch_labels.reshape(-1), records["labels"][:stop])
    assert np.array_equal(handed.held_ids, records["ids"][stop:])
    assert handed.rows.shape == (PLAN.ids, DIM)
    assert 0.9 * HALF_WIDTH < np.abs(handed.rows).max() <= HALF_WIDTH
    assert HELD_OUT > 50


def test_the_handed_network_answers_as_ours_does(tmp_path: Path) -> None:
    records = draw_records(100, seed=0, ids=PLAN.ids)
    handed = read_handed(tmp_path, hand_over(PLAN, records, tmp_path))
    rows = torch.nn.Embedding.from_pretrained(torch.from_numpy(handed.rows))
    with torch.no_grad():
        logits = Model(rows, FIELDS)(torch.from_numpy(handed.held_ids))
        labels = torch.from_numpy(handed.held_labels)
        loss = binary_cross_entropy_with_logits(logits, labels).item()
    mine = logits_of(handed.rows[handed.held_ids], handed.network)
    assert np.allclose(mine, logits.numpy(), atol=1e-5)
    assert np.isclose(mean_loss(mine, handed.held_labels), loss, rtol=1e-5)


def test_a_ratio_has_a_goal_only_where_the_losses_are_equal() -> None:
    stale, waiting = PEERS["paddle"].who, PEERS["paddle-1"].who
    runs = {
        OURS: [Trained(50.0, 0.500)],
        stale: [Trained(40.0, 0.600)],
        waiting: [Trained(5.0, 0.504)],
    }
    equal, told = equal_losses(runs)
    assert equal == {OURS: True, stale: False, waiting: True}
    assert "0.6000 (NOT EQUAL" in told
    first, second = ratios_of(figures_of("CTR", runs), equal)
    assert (first.verdict, first.against) == ("", f"{stale} (not equal)")
    assert (second.value, second.verdict) == (10.0, "reached")


def test_ports_are_different() -> None:
    assert len(set(free_ports(3))) == 3
