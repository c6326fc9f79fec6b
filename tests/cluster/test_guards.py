"""Guards with real trainers and servers: one wild batch, and where to find it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import Async, Guards, Pace, Sync

RECORDS, BATCH, WILD = 160, 4, 77
NORM = Guards(norm=4)


def step_on_all(session: paceline.Session) -> float:
    """One dense parameter counts records; the gradient of one batch is absurd."""
    model = nn.Module()
    model.count = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    ids = torch.arange(RECORDS)
    for batch in session.batches(ids, BATCH, epochs=2, shuffle=False, task_size=40):
        is_wild = bool((batch == WILD).any())
        model.count.grad = torch.full_like(model.count, -1e9 if is_wild else -len(batch))
        optimizer.step()
    return float(model.count.detach())


@pytest.mark.parametrize("pace", [Async(guards=NORM), Sync(reduce="sum", guards=NORM)])
def test_a_wild_batch_has_no_effect_and_can_be_found(
    pace: Pace, run: Callable[..., list[Any]]
) -> None:
    found = run(step_on_all, trainers=1, pace=pace)
    summary = run.jobs[0].close()  # type: ignore[attr-defined]
    wild = 2 * BATCH
    assert found == [2 * RECORDS - wild]
    assert summary["records"] == 2 * RECORDS
    counters = summary["counters"]
    assert (counters["void"], counters["void_records"]) == (2, wild)
    lines = (Path(summary["job_dir"]) / "events.jsonl").read_text().splitlines()
    told = [one for one in map(json.loads, lines) if one["event"] == "PushRefused"]
    task, batch = divmod(WILD // BATCH, 10)  # batches of a task
    assert [one["window"] for one in told] == [
        f"s0/e{epoch}[t{task}:{batch}-{batch}]" for epoch in (0, 1)
    ]
    assert [one["norm"] for one in told] == [1e9, 1e9]
