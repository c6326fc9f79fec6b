"""DiLoCo beside lockstep, at equal tokens: what the loss is, and how much travels.

::

    python -m benchmarks diloco
    python -m benchmarks diloco --batches 400 --rates 0.001

Four trainers read Python's own sources by bytes (`pace.language`), the same
batches in all, over TCP and with nothing lent (`harness.apart_now`), as between hosts.
The learning rate of the trainers' AdamW is tuned on one grid, the same for lockstep and for
DiLoCo, and warmed up and lowered by one schedule; codecs and fragments take the rate that
is best without. The outer step is one for all, `OUTER`: the paper's momentum of 0.9 is for
hundreds of rounds, and here are 60.

Bytes are the servers' own count of what was pushed.
"""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness.apart import APART
from benchmarks.harness.bench import Found, Run, bench, opt
from benchmarks.harness.figures import Figure, Measure, Ratio, judged, measured
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import ROOT, say

SCRIPT = ROOT / "benchmarks" / "pace" / "language.py"
TRAINERS, EVERY, BATCH = 4, 50, 128
OUTER = "lr=0.7,momentum=0.7"
LOCKSTEP, OURS = "sync", f"diloco:{EVERY},{OUTER}"
CODECS = ("int4", "top15%")
IN_FRAGMENTS = f"{OURS},fragments=4,overlap=2"
RATES = (0.02, 0.03, 0.04)
_SENT = ".gradient_bytes_sent"  # of each part


class Trained(NamedTuple):
    """One job."""

    loss: float  # held out, nats a byte
    pushed_mib: float  # by all trainers
    records: int
    seconds: float


def run_once(pace: str, rate: float, seed: int, run: Run) -> Trained:
    """Train once, in processes of its own."""
    words = (run.flags.batches, BATCH, rate, seed, EVERY, TRAINERS)
    config = job_config(pace, trainers=TRAINERS, seed=seed)
    summary = run.job(SCRIPT, words, run.place(), config, preloaded=(APART,))
    loss = summary.metrics.get("held_out")
    if loss is None:
        raise ValueError(f"expected a held-out loss, got {summary.metrics}")
    counters = summary.counters.items()
    sent = sum(count for name, count in counters if name.endswith(_SENT))
    pushed = sent / 2**20
    found = Trained(loss, pushed, summary.records, summary.seconds)
    say(f"{pace}, rate {rate:g}, seed {seed}: loss {loss:.4f}, pushed {pushed:,.1f} MiB")
    return found


def tuned(pace: str, run: Run) -> tuple[float, list[Trained]]:
    """The best rate of a grid, and the runs with it, one for each seed."""
    first = {rate: run_once(pace, rate, 0, run) for rate in run.flags.rates}
    best = min(first, key=lambda rate: first[rate].loss)
    others = [run_once(pace, best, seed, run) for seed in range(1, run.flags.times)]
    return best, [first[best], *others]


def figures_of(runs: dict[str, list[Trained]]) -> list[Figure]:
    """Held-out loss, bytes and seconds of each pace."""
    return measured(
        runs,
        Measure("held-out loss", "nats a byte", lambda run: run.loss),
        Measure("pushed", "MiB", lambda run: run.pushed_mib),
        Measure("the whole job", "s", lambda run: run.seconds),
        kind=lambda pace: "peer" if pace == LOCKSTEP else "ours",
    )


def ratios_of(figures: Sequence[Figure]) -> list[Ratio]:
    """Loss and bytes of DiLoCo against lockstep, and with a codec against without."""
    medians = {(figure.what, figure.who): figure for figure in figures}
    pairs = [(IN_FRAGMENTS, OURS, "fragments"), (OURS, LOCKSTEP, "diloco")]
    pairs += [(pace_with(codec), OURS, "delta") for codec in CODECS]
    ratios = []
    for pace, other, goal in pairs:
        loss, pushed = (medians[what, pace] for what in ("held-out loss", "pushed"))
        more = loss.median / medians["held-out loss", other].median
        fewer = medians["pushed", other].median / pushed.median
        ratios.append(judged(loss, f"{goal}-loss", more, other))
        if pace != IN_FRAGMENTS:  # which are as many bytes
            ratios.append(judged(pushed, f"{goal}-bytes", fewer, other))
    return ratios


def pace_with(codec: str) -> str:
    """DiLoCo with its deltas coded."""
    return f"{OURS},codec={codec}"


@bench(
    "diloco",
    opt("times", 3, "seeds of the best rate"),
    opt("batches", 12000, "of all trainers"),
    opt("rates", RATES),
)
def main(run: Run) -> Found:
    """Tune lockstep and DiLoCo, and take the best rate for the others."""
    runs: dict[str, list[Trained]] = {}
    best = 0.0
    for pace in (LOCKSTEP, OURS):
        best, runs[pace] = tuned(pace, run)
    for pace in (*map(pace_with, CODECS), IN_FRAGMENTS):
        seeds = range(run.flags.times)
        runs[pace] = [run_once(pace, best, seed, run) for seed in seeds]
    figures = figures_of(runs)
    records = {one.records for found in runs.values() for one in found}
    rates = ",".join(map(str, run.flags.rates))
    told = f"{run.flags.batches} batches of {BATCH} examples each, rates {rates}"
    return Found(figures, ratios_of(figures), told, len(records) == 1)
