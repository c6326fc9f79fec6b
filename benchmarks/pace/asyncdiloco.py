"""Four trainers of very different speed: rounds, deltas as they come, and delayed momentum.

::

    python -m benchmarks.pace.asyncdiloco
    python -m benchmarks.pace.asyncdiloco --hidden 4096 --epochs 8

The toy of ``google-deepmind/asyncdiloco``, beside Liu 2024 (2401.09135): trainers that take
0.58, 0.75, 1.51 and 3.33 s for a step, 20 steps between two deltas, AdamW with 2e-4, a
network of one hidden layer that tells four classes apart, each a mixture of eight Gaussians
in 512 dimensions. The seconds are virtual and the gradients real
(`benchmarks.pace.virtual`). It is smaller than theirs, and the rate is constant. Theirs
looks at points that it trains on; here they are held out, and lie closer to their centers.

* ``diloco:20`` waits for the slowest in every round.
* ``async-diloco:20,delay=1,adapt=no`` applies each delta with Nesterov momentum, by the
  small rate that theirs has.
* ``async-diloco:20,delay=4`` delays the momentum and gives slower trainers fewer steps.

All train the same records. What counts is when the accuracy is what rounds come to in the
end, but for half a point, and stays there.

Exit status: 0; 1 if delayed momentum is not there in a third of the time that rounds take.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.pace.virtual import Learning, Outcome, train
from benchmarks.record import circumstances, say, table, write
from paceline.config import parse_pace
from paceline.forecast.models.models import Measured, Quantiles
from paceline.forecast.plan import Plan
from paceline.watch.draw import COLORS, STYLE, import_pyplot

STEP_S = (0.58, 0.75, 1.51, 3.33)
PACES = {  # {what it is called: pace}
    "rounds": "diloco:20",
    "each as it comes": "async-diloco:20,lr=0.07,delay=1,adapt=no",
    "delayed momentum, adapted steps": "async-diloco:20,delay=4",
}
ROUNDS, OURS = "rounds", "delayed momentum, adapted steps"
DIM, CLASSES, CLUSTERS, NOISE = 512, 4, 8, 0.25
BATCH, RATE, HELD_OUT = 32, 2e-4, 4096
LEAST_GAIN, LOOKS = 3.0, 60
SLACK = 0.005  # of accuracy: what chance makes of so many held-out points


class Data(NamedTuple):
    """Points float32 (n, DIM) and their classes int64 (n,)."""

    points: Tensor
    classes: Tensor


def draw_data(count: int, seed: int) -> Data:
    """Points around centers on the unit sphere, of each class as many."""
    draw = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES * CLUSTERS, DIM, generator=draw)
    centers /= centers.norm(dim=1, keepdim=True)
    which = torch.randint(len(centers), (count,), generator=draw)
    points = centers[which] + NOISE * torch.randn(count, DIM, generator=draw)
    return Data(points, which // CLUSTERS)


def learning_of(records: int, hidden: int, seed: int) -> Learning:
    """The network, its data, and what is looked at: held-out loss and accuracy."""
    data = draw_data(records + HELD_OUT, seed)

    def make() -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(DIM, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))

    def loss(model: nn.Module, chosen: Tensor) -> Tensor:
        return cross_entropy(model(data.points[chosen]), data.classes[chosen])

    def judge(model: nn.Module) -> dict[str, float]:
        found = model(data.points[-HELD_OUT:])
        right = (found.argmax(1) == data.classes[-HELD_OUT:]).float().mean()
        held_out = cross_entropy(found, data.classes[-HELD_OUT:])
        return {"accuracy": right.item(), "loss": held_out.item()}

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-3)

    return Learning(make, optimizer, loss, judge)


def reached_s(run: Outcome, accuracy: float) -> float | None:
    """When the shared model has come to an accuracy for good; None if it has not."""
    found = None
    for seen in run.curve:
        if seen.told["accuracy"] < accuracy:
            found = None
        elif found is None:
            found = seen.seconds
    return found


def draw(runs: dict[str, Outcome], accuracy: float, picture: Path) -> None:
    """Accuracy and loss over virtual time."""
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
        for (name, run), color in zip(runs.items(), COLORS, strict=False):
            for panel, measure in zip(panels, ("accuracy", "loss"), strict=True):
                seconds = [seen.seconds for seen in run.curve]
                panel.plot(
                    seconds,
                    [seen.told[measure] for seen in run.curve],
                    color=color,
                    linewidth=2,
                    label=f"{name}: {PACES[name]}",
                )
                panel.set(xlabel="virtual seconds", ylabel=f"held-out {measure}")
        panels[0].axhline(accuracy, color="#B8B8B8", linestyle=":")
        panels[0].legend(frameon=False, loc="lower right")
        panels[0].set_title("Trainers of 0.58, 0.75, 1.51 and 3.33 s a step", loc="left")
        figure.savefig(picture, dpi=140, facecolor="white")
        pyplot.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Train three times, compare, keep; see the module."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.pace.asyncdiloco", description=__doc__
    )
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--records", type=int, default=64_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=Path, help="a .png or .svg")
    flags = parser.parse_args(arguments[1:])
    torch.set_num_threads(1)
    where = circumstances(arguments)
    learning = learning_of(flags.records, flags.hidden, flags.seed)
    look = max(1, flags.epochs * flags.records // BATCH // LOOKS)
    runs: dict[str, Outcome] = {}
    for name, pace in PACES.items():
        plan = Plan(
            trainers=len(STEP_S),
            pace=parse_pace(pace),
            records=flags.records,
            epochs=flags.epochs,
            batch_size=BATCH,
            compute=Measured(tuple(Quantiles((step_s, step_s)) for step_s in STEP_S)),
            seed=flags.seed,
        )
        runs[name] = train(plan, learning, judge_every=look)
        say(f"{name}: {runs[name].seconds:,.0f} s, {runs[name].curve[-1].told}")
    accuracy = runs[ROUNDS].curve[-1].told["accuracy"] - SLACK
    reached = {name: reached_s(run, accuracy) for name, run in runs.items()}
    rows = [("", "pace", "seconds", "updates", "accuracy", "loss", "as rounds after")]
    for name, run in runs.items():
        told, there_s = run.curve[-1].told, reached[name]
        rows.append(
            (
                name,
                PACES[name],
                f"{run.seconds:,.0f}",
                str(run.updates),
                f"{told['accuracy']:.4f}",
                f"{told['loss']:.4f}",
                "never" if there_s is None else f"{there_s:,.0f} s",
            )
        )
    print(table(rows))
    there_s = reached[OURS]
    gain = 0.0 if there_s is None else runs[ROUNDS].seconds / there_s
    print(f"delayed momentum is there {gain:.2f} times sooner, wanted {LEAST_GAIN:g}")
    record: dict[str, object] = {
        **where,
        "runs": {
            name: {**run._asdict(), "curve": [seen._asdict() for seen in run.curve]}
            for name, run in runs.items()
        },
        "reached": reached,
        "gain": gain,
    }
    print(write("asyncdiloco", record))
    if flags.draw is not None:
        draw(runs, accuracy, flags.draw)
    return int(gain < LEAST_GAIN)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
