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

Exit status: 0; 1 if a job trained fewer records than another. A codec that loses more AUC
than the goal allows is told, and is no failure.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.apart import APART, CODECS, LOSSLESS, pace_of, who_of
from benchmarks.harness.environments import one_thread
from benchmarks.harness.figures import (
    Figure,
    Ratio,
    compared,
    figure_table,
    judged,
    kept,
    ratio_table,
)
from benchmarks.harness.goals import wanted
from benchmarks.harness.processes import (
    ROOT,
    fork_server,
    job_config,
    wait_job,
    wait_script,
)
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.summary import Summary

SCRIPT = ROOT / "examples" / "ctr" / "train.py"
DATA_SCRIPT = ROOT / "benchmarks" / "ctr" / "codecs_data.py"
SIDES = 2  # trainers, and servers
LIMIT_S = 600.0  # of fetching the data
SENT = ("gradient_bytes_sent", "value_bytes_sent")  # counters of a part


class Run(NamedTuple):
    """One job."""

    auc: float  # of the test records
    records: int  # trained
    sent_kib: float  # of a step, both ways, by all trainers
    rate: float  # records per second of the whole job


def run_of(summary: Summary) -> Run:
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
    return Run(auc, summary.records, sent_kib, summary.records_per_second)


def run_once(codec: str, seed: int, epochs: int, folder: Path, forks: ForkServer) -> Run:
    """The demo with a codec and a seed, in processes of its own."""
    config = job_config(pace_of(codec), trainers=SIDES, servers=SIDES, seed=seed)
    words = ("--seed", str(seed), "--epochs", str(epochs))
    script = UserScript(str(SCRIPT), words)
    return run_of(wait_job(forks, config, script, one_thread(), folder, "tcp"))


def measure(
    codecs: Sequence[str], times: int, epochs: int, folder: Path, forks: ForkServer
) -> dict[str, list[Run]]:
    """Interleaved runs, one of each with each seed: {codec: runs by seed}."""
    # Whoever is first would wait for the imports, and for the data.
    wait_script(forks, DATA_SCRIPT, (), one_thread(), folder / "data", LIMIT_S)
    runs: dict[str, list[Run]] = {codec: [] for codec in (LOSSLESS, *codecs)}
    for seed in range(times):
        for number, (codec, found) in enumerate(runs.items()):
            place = folder / f"{number}-{seed}"
            place.mkdir()
            found.append(run_once(codec, seed, epochs, place, forks))
            run = found[-1]
            told = f"AUC {run.auc:.4f}, {run.sent_kib:,.0f} KiB a step"
            say(f"{seed + 1}/{times}  {who_of(codec)}: {told}, {run.rate:,.0f} records/s")
    return runs


def figures_of(runs: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """AUC, bytes of a step and rates; no codec is ours as well."""
    measures = (
        ("AUC", "AUC", "auc", True),
        ("sent in a step", "KiB", "sent_kib", False),
        ("the whole job", "records/s", "rate", True),
    )
    return [
        Figure(
            what,
            who_of(codec),
            "ours",
            unit,
            tuple(getattr(run, measure) for run in found),
            is_more_better,
        )
        for what, unit, measure, is_more_better in measures
        for codec, found in runs.items()
    ]


def lost(runs: Mapping[str, Sequence[Run]], codec: str) -> float:
    """How much lower the median AUC is than without a codec; below 0: it is higher."""
    with_codec, without = (
        statistics.median(run.auc for run in runs[one]) for one in (codec, LOSSLESS)
    )
    return without - with_codec


def ratios_of(runs: Mapping[str, Sequence[Run]], figures: Sequence[Figure]) -> list[Ratio]:
    """What each codec loses, how much less it sends, and how the rates compare."""
    by_name = {(figure.what, figure.who): figure for figure in figures}
    ratios = []
    for codec in runs:
        if codec == LOSSLESS:
            continue
        auc = by_name["AUC", who_of(codec)]
        loss = judged(auc, wanted("codec"), lost(runs, codec))
        ratios.append(loss._replace(what="AUC lost"))
        for what in ("sent in a step", "the whole job"):
            pair = (by_name[what, who_of(one)] for one in (codec, LOSSLESS))
            ratios.append(compared(*pair))
    return sorted(ratios, key=lambda ratio: ratio.what)


def compare_jobs(runs: Mapping[str, Sequence[Run]]) -> tuple[bool, str]:
    """Whether all jobs trained the same number of records, and how seeds alone differ."""
    records = {run.records for found in runs.values() for run in found}
    seeds = spread([run.auc for run in runs[LOSSLESS]])
    told = (
        f"every job trained {' or '.join(f'{count:,}' for count in sorted(records))} "
        f"records; without a codec the AUC is {seeds.least:.4f} to {seeds.most:.4f} "
        f"by the seed ({seeds.times})"
    )
    return len(records) == 1, told


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks codecs", description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="seeds")
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--epochs", type=int, default=1)
    flags = parser.parse_args(arguments[1:])
    where = circumstances(arguments)  # before the load is our own
    codecs = [name for name in flags.codecs.split(",") if name]
    with (
        tempfile.TemporaryDirectory(prefix="paceline-bench-") as name,
        fork_server(Path(name) / "forks", 1, [APART]) as forks,
    ):
        runs = measure(codecs, flags.times, flags.epochs, Path(name), forks)
    figures = figures_of(runs)
    ratios = ratios_of(runs, figures)
    is_equal, told = compare_jobs(runs)
    print(f"{told}\n\n{figure_table(figures)}\n\n{ratio_table(ratios)}")
    found = kept(figures, ratios, told, is_equal=is_equal)
    print(f"\n{write('codecs', {**where, **found})}")
    return 0 if is_equal else 1
