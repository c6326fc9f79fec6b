"""Records that files give in a second of a processor, beside pandas and scikit-learn.

::

    python -m benchmarks readers [--times 5] [--no-peer] [--records 30000]

Made-up files: LIBSVM's format with 14 of 123 features a row, as a9a has them; CSV of 123
columns of fractions; Parquet of 13 fractions and 26 whole numbers, with ten times as many
rows. One epoch, shuffled, in batches of 512, from opening the file on: paceline reads
records where they lie and makes tensors; the peers read the whole file into memory first,
as they do, and then take the rows of each batch. What they give stays as their own arrays.

Rates are of processor time, with one thread. Runs are interleaved, each in a process of
its own; the sums of all numbers are compared first.

Exit status: 0; 1 if the sums differ. A goal that is missed is told, and is no failure.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.environments import OURS, one_thread, versions, wait_python
from benchmarks.harness.figures import Figure, Ratio, compared, judged
from benchmarks.harness.processes import wait_modules

LIMIT_S = 600.0
BATCH = 512
FEATURES, SET_FEATURES = 123, 14  # of a row; of these not zero
FRACTIONS, WHOLES = 13, 26  # columns of Parquet
MORE_ROWS = 10  # Parquet is read so much faster
PEERS = "readers"  # the environment of all of them
SUMS_WITHIN = 1e-5


class File(NamedTuple):
    """One file that everyone reads."""

    name: str  # of its goal, too
    path: Path
    records: int
    peer: str


class Candidate(NamedTuple):
    """Who reads which file."""

    file: File
    who: str


class Epoch(NamedTuple):
    """One run: records in a second of a processor, and the sum of all numbers."""

    rate: float
    total: float


def write_files(records: int, folder: Path) -> list[File]:
    """Make the files up; the same ones every time."""
    rng = np.random.default_rng(0)
    files = [
        File("libsvm", folder / "a.svm", records, "scikit-learn"),
        File("csv", folder / "a.csv", records, "pandas"),
        File("parquet", folder / "a.parquet", records * MORE_ROWS, "pandas"),
    ]
    with files[0].path.open("w", encoding="ascii") as lines:
        for _ in range(records):
            ids = np.sort(rng.choice(FEATURES, SET_FEATURES, replace=False)) + 1
            label = "+1" if rng.random() < 0.25 else "-1"
            lines.write(f"{label} {' '.join(f'{number}:1' for number in ids)}\n")
    fractions = rng.random((records, FEATURES))
    header = ",".join(f"x{number}" for number in range(FEATURES))
    np.savetxt(files[1].path, fractions, "%.6g", ",", header=header, comments="")
    rows = files[2].records
    columns = {f"x{i}": rng.random(rows, np.float32) for i in range(FRACTIONS)}
    wholes = {f"id{i}": rng.integers(0, 1000, rows) for i in range(WHOLES)}
    parquet.write_table(pa.table(columns | wholes), files[2].path, row_group_size=1 << 16)
    return files


def read_once(one: Candidate, place: Path) -> Epoch:
    """One epoch, in a process of the candidate's environment."""
    file, out = one.file, place / "result.json"
    flags = flags_of(path=file.path, records=file.records, batch=BATCH, out=out)
    python = wait_python(OURS if one.who == "paceline" else PEERS)
    module, told = "benchmarks.ctr.read_epoch", {one.who: (one.who, *flags)}
    wait_modules(python, module, told, one_thread(), place, LIMIT_S)
    found = result(place)
    return Epoch(file.records / found["used_s"], found["total"])


def equal_sums(runs: Mapping[Candidate, Sequence[Epoch]]) -> tuple[bool, str]:
    """Whether everyone gave the same numbers, and by how much the sums differ at most."""
    totals: dict[str, list[float]] = {}
    for one, found in runs.items():
        totals.setdefault(one.file.name, []).extend(run.total for run in found)
    gap = max(max(found) / min(found) - 1 for found in totals.values())
    return gap <= SUMS_WITHIN, f"the sums of all numbers differ by {gap:.1e} of them"


def figures_of(runs: Mapping[Candidate, Sequence[Epoch]]) -> list[Figure]:
    """Records per second of a processor, of everyone."""
    return [
        Figure(
            f"{one.file.name}, batches of {BATCH}",
            one.who,
            "ours" if one.who == "paceline" else "peer",
            "records/s",
            tuple(run.rate for run in found),
            is_more_better=True,
        )
        for one, found in runs.items()
    ]


def ratios_of(runs: Mapping[Candidate, Sequence[Epoch]]) -> list[Ratio]:
    """Ours against what is wanted of it, and against the peer of the same file."""
    figures = dict(zip(runs, figures_of(runs), strict=True))
    ratios = []
    for one, figure in figures.items():
        if one.who == "paceline":
            ratios.append(judged(figure, f"read-{one.file.name}"))
            if peer := figures.get(one._replace(who=one.file.peer)):
                ratios.append(compared(figure, peer))
    return ratios


@bench("readers", TIMES, opt("no-peer", False), opt("records", 30_000))
def main(run: Run) -> Found:
    """Read every file by everyone."""
    files = write_files(run.flags.records, run.folder)
    candidates = [
        Candidate(file, who)
        for file in files
        for who in ("paceline", *(() if run.flags.no_peer else (file.peer,)))
    ]
    runs = run.interleaved(
        candidates,
        read_once,
        lambda one, epoch: f"{one.file.name}, {one.who}: {epoch.rate:,.0f} records/s",
    )
    is_equal, told = equal_sums(runs)
    more = {"peers": {} if run.flags.no_peer else {PEERS: versions(PEERS)}}
    return Found(figures_of(runs), ratios_of(runs), told, is_equal, more=more)
