"""What a second trainer is worth where a step computes, in records a second.

::

    python -m benchmarks two_trainers [--times 5] [--model language] [--paces sync,async]

The plain loop of one process with a `DataLoader`, two such loops at once that know nothing
of each other, and a job of two trainers and one server, one thread each. All learn one of
the models of `step_cost`; whoever is first trains alone until the other is there, so that
steps count from when both have some behind them until the first has no more.

A third process needs a third core: on two, what the server and the coordinator compute is
taken from the trainers.

Waits: for the jobs.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import paceline
from benchmarks.dense.step_cost_models import (
    MODELS,
    Batch,
    Optimizers,
    pair_of,
    plain_of,
)
from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.figures import Figure, Ratio, compared
from benchmarks.harness.processes import job_config

PLAIN, APART = "plain loop", "2 plain loops, no exchange"
TRAINERS, WARM = 2, 10  # steps of each, before any is counted
TASK = 5  # batches
LIMIT_S = 600.0


def trained(model_name: str, session: paceline.Session | None, steps: int) -> list[float]:
    """Train by paceline or plainly; when each step had ended, by the machine's clock."""
    kind = MODELS[model_name]
    torch.manual_seed(1)
    records = kind.draw((1 if session is None else TRAINERS) * steps * kind.batch)
    data: Iterator[Batch]
    if session is None:
        model = plain_of(model_name)
        optimizer: Any = Optimizers(model)
        data = iter(DataLoader(TensorDataset(*records), kind.batch))
    else:
        model, _ = pair_of(model_name)
        own = kind.optimizer(model.linear.parameters()) if model.linear else None
        optimizer = session.share(model, own)
        data = iter(
            session.batches(records, kind.batch, shuffle=False, task_size=TASK * kind.batch)
        )
    ended_s = []
    for batch in data:
        model.loss(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        ended_s.append(time.monotonic())
    return ended_s


def rate_of(ended_s: Sequence[Sequence[float]]) -> float:
    """Steps a second of all together, while all were at it and warm."""
    first_s = max(one[WARM - 1] for one in ended_s)
    last_s = min(one[-1] for one in ended_s)
    counted = sum(first_s < at_s <= last_s for at_s in itertools.chain(*ended_s))
    return counted / (last_s - first_s)


def run_once(pace: str, place: Path, run: Run) -> float:
    """Records a second of one run."""
    flags, script = run.flags, Path(__file__)
    words = flags_of(out=place, model=flags.model, steps=flags.steps)
    sides = range(1 if pace == PLAIN else TRAINERS)
    if pace in {PLAIN, APART}:
        plain = [(*words, *flags_of(plain=side)) for side in sides]
        run.script(script, place, *plain, limit_s=LIMIT_S)
    else:
        run.job(script, words, place, job_config(pace, TRAINERS))
    ended_s = [result(place, side) for side in sides]
    return MODELS[flags.model].batch * rate_of(ended_s)


@bench(
    "two_trainers",
    TIMES,
    opt("paces", ("sync", "async")),
    opt("model", "language", "of step_cost", tuple(MODELS)),
    opt("steps", 100, "of each side"),
)
def main(run: Run) -> Found:
    """Runs in turns."""
    runs = run.interleaved(
        (PLAIN, APART, *run.flags.paces),
        lambda pace, place: run_once(pace, place, run),
        lambda pace, rate: f"{pace}: {rate:.0f} records/s",
        is_turned=True,
    )
    what = f"{run.flags.model}, records/s"
    floors = [
        Figure(what, name, "floor", "records/s", tuple(runs.pop(name)), True)
        for name in (PLAIN, APART)
    ]
    figures, ratios = list[Figure](), list[Ratio]()
    for pace, rates in runs.items():
        who = f"2 trainers, {pace}"
        figures.append(Figure(what, who, "ours", "records/s", tuple(rates), True))
        goal = "two-trainers" if run.flags.model == "language" else ""
        ratios += [
            compared(figures[-1], floor, goal if floor.who == PLAIN else "")
            for floor in floors
        ]
    return Found([*floors, *figures], ratios, "steps counted while both trainers had some")


def be_a_side() -> None:
    """Train, and write when steps had ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--plain", type=int, help="which plain loop; a trainer knows")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    side, session = flags.plain, None
    if side is None:
        session = paceline.connect()
        side = int(os.environ["PACELINE_ROLE"].rpartition("-")[2])
    ended_s = trained(flags.model, session, flags.steps)
    (flags.out / f"result-{side}.json").write_text(json.dumps(ended_s), encoding="utf-8")


if __name__ == "__main__":
    be_a_side()
