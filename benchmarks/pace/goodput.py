"""A trace of deaths: how much of all trainers' time goes into batches that count.

::

    python -m benchmarks.pace.goodput
    python -m benchmarks.pace.goodput --deaths-every 30 --quorum 8

Sixteen trainers of one speed, and one of them dies every 24 s (Poisson, from the seed).
The same trace meets two jobs of as many batches.

* **All stop** is a model of a job that restarts as a whole: each death takes all back to
  the last checkpoint, and `--restart` seconds later they go on. 17.5 s is what the survivor
  of two agents took under ``torchrun --nnodes=1:2`` with ``last_call_timeout=2``, from the
  death of the other to its own next step. A checkpoint costs nothing here, nobody ever
  waits in a step, and a death while all restart changes nothing.
* **A quorum of deltas** is DiLoCo with a quorum: the product's coordinator, server and
  trainers decide in virtual time (`benchmarks.pace.virtual`), and the numbers are real. A
  process that has died is away for as many seconds.

What is learnt is which byte follows eight others, in Python's own sources, by AdamW whose
rate falls as a cosine of the job's progress; the script tracks it, so that whoever returns
begins with the state that the last checkpoint has of one trainer.
Goodput is the share of all trainers' time that went into batches which had their effect.
The loss is held against that of the same job without a death.

Exit status: 0; 1 if all stop keeps more than 35 %, ours less than 85 %, or if our loss is
more than 1 % above the undisturbed one.
"""

import argparse
import math
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.pace.virtual import Death, Learning, Outcome, draw_deaths, train
from benchmarks.record import circumstances, say, table, write
from paceline.config import DiLoCo
from paceline.forecast.models.models import Lognormal
from paceline.forecast.plan import Plan
from paceline.watch.draw import COLORS, DEATH, INK, STYLE, import_pyplot

CONTEXT, WIDTH, HIDDEN, BYTES = 8, 16, 128, 128
HELD_OUT, BATCH, RATE, LAST_RATE = 8192, 32, 2e-3, 0.01  # the last one is a factor
MOST_STOPPED, LEAST_OURS, MOST_LOSS = 0.35, 0.85, 0.01
TRACE = 40  # as long as so many undisturbed jobs


class Stopped(NamedTuple):
    """What a job came to that restarts as a whole; ``progress``: (second, seconds done)."""

    seconds: float
    goodput: float
    restarts: int
    progress: list[tuple[float, float]]


def stop_all(
    deaths: Sequence[Death], work_s: float, restart_s: float, checkpoint_s: float
) -> Stopped:
    """All go back to the last checkpoint at each death.

    Args:
        deaths: in order.
        work_s: of computing, of each trainer.
        restart_s: from a death until all compute again.
        checkpoint_s: of computing, between two checkpoints.
    """
    now_s = done_s = 0.0
    restarts, progress = 0, [(0.0, 0.0)]
    for death_s, _ in deaths:
        if death_s < now_s:
            continue  # all restart already
        reached_s = done_s + death_s - now_s
        if reached_s >= work_s:
            break
        progress.append((death_s, reached_s))
        done_s = reached_s // checkpoint_s * checkpoint_s
        now_s, restarts = death_s + restart_s, restarts + 1
        progress += [(death_s, done_s), (now_s, done_s)]
    seconds = now_s + work_s - done_s
    progress.append((seconds, work_s))
    return Stopped(seconds, work_s / seconds, restarts, progress)


def read_bytes(records: int) -> tuple[Tensor, Tensor]:
    """Windows to train on and held out, int64 ``(n, CONTEXT + 1)``."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).clamp(max=BYTES - 1).long()
    windows = data.unfold(0, CONTEXT + 1, 3)
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    if records + HELD_OUT > len(windows):
        most = len(windows) - HELD_OUT
        raise SystemExit(f"{records} windows are wanted, {most} are there: fewer --batches")
    return windows[order[:records]], windows[order[-HELD_OUT:]]


class NextByte(nn.Module):
    """Predicts a byte from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, WIDTH)
        self.hidden = nn.Linear(CONTEXT * WIDTH, HIDDEN)
        self.head = nn.Linear(HIDDEN, BYTES)

    def forward(self, windows: Tensor) -> Tensor:
        """The mean loss of windows int64 ``(n, CONTEXT + 1)``, in nats a byte."""
        seen = self.bytes(windows[:, :-1]).flatten(1)
        return cross_entropy(self.head(torch.relu(self.hidden(seen))), windows[:, -1])


def learning_of(records: int, seed: int) -> Learning:
    """The model and its data."""
    windows, held_out = read_bytes(records)

    def make() -> nn.Module:
        torch.manual_seed(seed)
        return NextByte()

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)

    def loss(model: nn.Module, chosen: Tensor) -> Tensor:
        found: Tensor = model(windows[chosen])
        return found

    def judge(model: nn.Module) -> dict[str, float]:
        return {"loss": model(held_out).item()}

    def rate(share: float) -> float:
        return LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * share))

    return Learning(make, optimizer, loss, judge, rate, is_tracked=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.pace.goodput", description=__doc__)
    parser.add_argument("--trainers", type=int, default=16)
    parser.add_argument("--batches", type=int, default=1600, help="of each trainer")
    parser.add_argument("--step", type=float, default=0.5, help="seconds of a batch")
    parser.add_argument("--every", type=int, default=20, help="batches of a round")
    parser.add_argument("--quorum", type=int, default=8)
    parser.add_argument("--deaths-every", type=float, default=24.0, help="of any trainer")
    parser.add_argument("--restart", type=float, default=17.5, help="seconds, see above")
    parser.add_argument("--checkpoint", type=float, default=30.0, help="of the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=Path, help="a .png or .svg")
    return parser.parse_args(arguments)


def plan_of(flags: argparse.Namespace) -> Plan:
    """The job of the product."""
    return Plan(
        trainers=flags.trainers,
        pace=DiLoCo(every=flags.every, quorum=flags.quorum),
        records=flags.trainers * flags.batches * BATCH,
        batch_size=BATCH,
        compute=Lognormal(flags.step, 0.1),
        parameter_bytes=4 * sum(p.numel() for p in NextByte().parameters()),
        seed=flags.seed,
    )


def draw(
    flags: argparse.Namespace, stopped: Stopped, ours: Outcome, quiet: Outcome
) -> None:
    """Progress and loss over time, and the deaths."""
    pyplot = import_pyplot()
    work_s = flags.batches * flags.step
    curves = (
        ("a quorum of deltas", ours, COLORS[0], "-"),
        ("the same, nobody dies", quiet, COLORS[2], "--"),
    )
    with pyplot.rc_context(STYLE):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(12, 4.6), layout="constrained"
        )
        for name, run, color, line in curves:
            seconds = [seen.seconds for seen in run.curve]
            done = [100 * seen.batches / run.batches for seen in run.curve]
            left.plot(seconds, done, line, color=color, label=name, linewidth=2)
            losses = [seen.told["loss"] for seen in run.curve]
            right.plot(seconds, losses, line, color=color, label=name, linewidth=2)
        end_s = 1.6 * ours.seconds
        seconds, done = zip(*stopped.progress, strict=True)
        share = [100 * one / work_s for one in done]
        left.plot(seconds, share, color=COLORS[1], label="all stop at each death")
        for moment_s, _ in draw_deaths_of(flags):
            if moment_s < end_s:
                left.axvline(moment_s, ymax=0.03, color=DEATH, linewidth=1)
        left.set(xlim=(0, end_s), xlabel="seconds", ylabel="% of batches that count")
        left.set_title(
            f"{ours.goodput:.0%} goodput, {stopped.goodput:.0%} if all stop",
            loc="left",
            color=INK,
        )
        right.set(xlabel="seconds", ylabel="held-out loss, nats a byte")
        right.set_title(
            f"{ours.deaths} deaths (red), {flags.trainers} trainers", loc="left"
        )
        right.set_ylim(top=right.dataLim.y0 + 0.4 * right.dataLim.height)
        left.legend(frameon=False, loc="upper left")
        right.legend(frameon=False)
        figure.savefig(flags.draw, dpi=140, facecolor="white")
        pyplot.close(figure)


def draw_deaths_of(flags: argparse.Namespace) -> list[Death]:
    """The trace, as long as anybody may need it."""
    until_s = TRACE * flags.batches * flags.step
    return draw_deaths(flags.deaths_every, until_s, flags.trainers, flags.seed)


def told_of(run: Outcome) -> dict[str, Any]:
    """A run as it is kept."""
    return {**run._asdict(), "curve": [seen._asdict() for seen in run.curve]}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    flags = parse(arguments[1:])
    torch.set_num_threads(1)
    where, plan, deaths = circumstances(arguments), plan_of(flags), draw_deaths_of(flags)
    learning = learning_of(plan.records, flags.seed)
    work_s = flags.batches * flags.step
    stopped = stop_all(deaths, work_s, flags.restart, flags.checkpoint)
    look = max(1, flags.trainers * flags.batches // 60)
    quiet = train(plan, learning, judge_every=look)
    say(f"nobody dies: {100 * quiet.goodput:.1f} % goodput, {quiet.curve[-1].told}")
    ours = train(plan, learning, deaths=deaths, restart_s=flags.restart, judge_every=look)
    losses = [run.curve[-1].told["loss"] for run in (quiet, ours)]
    more = losses[1] / losses[0] - 1
    rows = [
        ("", "goodput", "seconds", "deaths", "rounds", "loss"),
        (
            "all stop (a model)",
            f"{100 * stopped.goodput:.1f} %",
            f"{stopped.seconds:,.0f}",
            str(stopped.restarts),
            "",
            "",
        ),
        *(
            (
                name,
                f"{100 * run.goodput:.1f} %",
                f"{run.seconds:,.0f}",
                str(run.deaths),
                str(run.updates),
                f"{run.curve[-1].told['loss']:.4f}",
            )
            for name, run in ((str(plan.pace), ours), ("the same, nobody dies", quiet))
        ),
    ]
    print(table(rows))
    is_reached = (
        stopped.goodput <= MOST_STOPPED and ours.goodput >= LEAST_OURS and more <= MOST_LOSS
    )
    verdict = "as wanted" if is_reached else "not as wanted"
    print(f"loss {100 * more:+.2f} % beside the undisturbed job; {verdict}")
    record: dict[str, object] = {
        **where,
        "arguments": {k: str(v) for k, v in vars(flags).items()},
        "stopped": stopped._asdict(),
        "ours": told_of(ours),
        "undisturbed": told_of(quiet),
        "more_loss": more,
    }
    print(write("goodput", record))
    if flags.draw is not None:
        draw(flags, stopped, ours, quiet)
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
