"""What a codec costs in quality and saves in bytes, on the main job: flights.

::

    python -m benchmarks codecs [--times 5] [--codecs bf16,fp16,int8,int4,top10%,top1%]

`examples/ctr` as `make demo` runs it, two trainers and two servers in `sync`, but over TCP
and with nothing lent (`harness.apart_now`), as between hosts: within one, values without
a codec are read where the servers keep them, and do not travel. Each codec and no codec run
once with each seed, which draws the network, the rows and the order of the records; runs
are interleaved, each in processes of its own.

AUC of the test flights is compared by medians over the seeds. Bytes are the servers' own
count of gradients and values, both ways, for each step of all trainers. Rates are of the
whole job, from its first process to its end, on a wire that costs nothing; in
`benchmarks link` it costs something.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.apart import APART, CODECS, LOSSLESS, pace_of, who_of
from benchmarks.harness.bench import Found, Run, bench, flags_of, opt
from benchmarks.harness.figures import Figure, Measure, Ratio, compared, judged, measured
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import ROOT, spread
from paceline.watch.summary import Summary

sys.path.insert(0, str(ROOT / "examples" / "ctr"))

import flights

SCRIPT = ROOT / "examples" / "ctr" / "train.py"
SIDES = 2  # trainers, and servers
SENT = ("gradient_bytes_sent", "value_bytes_sent")  # counters of a part


class Trained(NamedTuple):
    """One job."""

    auc: float  # of the test records
    records: int  # trained
    sent_kib: float  # of a step, both ways, by all trainers
    rate: float  # records per second of the whole job


def run_of(summary: Summary) -> Trained:
    """What a job's summary says.

    Raises:
        ValueError: it has no AUC.
    """
    auc = summary.metrics.get("auc")
    if auc is None:
        raise ValueError(f"{summary.job_dir}: expected an AUC, got {summary.metrics}")
    sent = sum(
        count
        for name, count in summary.counters.items()
        if name.startswith("part-") and name.rpartition(".")[2] in SENT
    )
    sent_kib = sent / summary.steps / 1024
    return Trained(auc, summary.records, sent_kib, summary.records_per_second)


def figures_of(runs: Mapping[str, Sequence[Trained]]) -> list[Figure]:
    """AUC, bytes of a step and rates; no codec is ours as well."""
    return measured(
        runs,
        Measure("AUC", "AUC", lambda run: run.auc, is_more_better=True),
        Measure("sent in a step", "KiB", lambda run: run.sent_kib),
        Measure("the whole job", "records/s", lambda run: run.rate, is_more_better=True),
        who=who_of,
    )


def lost(runs: Mapping[str, Sequence[Trained]], codec: str) -> float:
    """How much lower the median AUC is than without a codec; below 0: it is higher."""
    with_codec, without = (
        statistics.median(run.auc for run in runs[one]) for one in (codec, LOSSLESS)
    )
    return without - with_codec


def ratios_of(
    runs: Mapping[str, Sequence[Trained]], figures: Sequence[Figure]
) -> list[Ratio]:
    """What each codec loses, how much less it sends, and how the rates compare."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    ratios = []
    for codec in runs:
        if codec == LOSSLESS:
            continue
        auc = by_name["AUC", who_of(codec)]
        loss = judged(auc, "codec", lost(runs, codec))
        ratios.append(loss._replace(what="AUC lost"))
        for what in ("sent in a step", "the whole job"):
            with_it, without = (by_name[what, who_of(one)] for one in (codec, LOSSLESS))
            ratios.append(compared(with_it, without))
    return sorted(ratios, key=lambda ratio: ratio.what)


def compare_jobs(runs: Mapping[str, Sequence[Trained]]) -> tuple[bool, str]:
    """Whether all jobs trained the same number of records, and how seeds alone differ."""
    records = {run.records for found in runs.values() for run in found}
    seeds = spread([run.auc for run in runs[LOSSLESS]])
    told = (
        f"every job trained {' or '.join(f'{count:,}' for count in sorted(records))} "
        f"records; without a codec the AUC is {seeds.least:.4f} to {seeds.most:.4f} "
        f"by the seed ({seeds.times})"
    )
    return len(records) == 1, told


@bench("codecs", opt("times", 5, "seeds"), opt("codecs", CODECS), opt("epochs", 1))
def main(run: Run) -> Found:
    """The demo with each codec and each seed, in processes of its own."""
    flights.load()  # whoever is first would wait for the data

    def once(codec: str, place: Path) -> Trained:
        config = job_config(pace_of(codec), trainers=SIDES, servers=SIDES, seed=run.turn)
        words = flags_of(seed=run.turn, epochs=run.flags.epochs)
        return run_of(run.job(SCRIPT, words, place, config, preloaded=(APART,)))

    runs = run.interleaved(
        (LOSSLESS, *run.flags.codecs),
        once,
        lambda codec, one: f"{who_of(codec)}: AUC {one.auc:.4f}, {one.rate:,.0f} records/s",
    )
    figures = figures_of(runs)
    is_equal, told = compare_jobs(runs)
    return Found(figures, ratios_of(runs, figures), told, is_equal)
