"""The share of the time that a rotation waits for blocks: with two slices, and with one.

::

    python -m benchmarks rotation_waits [--times 5] [--small]

Two trainers, one data part each, four blocks, one server. A cell computes for a while (a
sleep: no core is needed, so that two trainers and a server on two cores do not wait for
each other's) and changes its block. With two slices the next block is fetched meanwhile;
with one it is fetched when the user asks for it. The wait is from there until its rows are
there. Every job checks that each cell of each round has had its effect once.

Exit status: 0; 1 if a job was not exact.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.environments import one_thread
from benchmarks.harness.processes import fork_server, job_config, wait_job
from benchmarks.harness.record import circumstances, say, spread, write
from paceline.launch.job.commands import UserScript
from paceline.launch.processes.forkserver import ForkServer

SCRIPT = Path(__file__).with_name("rotation_job.py")
TRAINERS = 2


class Load(NamedTuple):
    """What a cell is."""

    kib: int
    sleep_ms: float


class Run(NamedTuple):
    """What one job has come to, over its trainers."""

    share: float  # of the time, waiting for blocks
    wait_ms: float  # a cell
    is_exact: bool


LOADS = (Load(64, 5), Load(1024, 20), Load(8192, 40))
SMALL = (Load(64, 5),)


def run(load: Load, slices: int, rounds: int, folder: Path, forks: ForkServer) -> Run:
    """One job."""
    out = folder / "run.json"
    words = ["--rounds", str(rounds), "--parts", str(TRAINERS), "--slices", str(slices)]
    words += ["--kib", str(load.kib), "--sleep-ms", str(load.sleep_ms), "--out", str(out)]
    config = job_config("async", TRAINERS)
    wait_job(forks, config, UserScript(str(SCRIPT), tuple(words)), one_thread(), folder)
    told = json.loads(out.read_text(encoding="utf-8"))
    waited_s = sum(waits[0] for waits in told["waits"])
    total_s = sum(waits[1] for waits in told["waits"])
    cells = sum(waits[2] for waits in told["waits"])
    return Run(waited_s / total_s, 1000 * waited_s / cells, told["exact"])


def main(arguments: Sequence[str]) -> int:
    """Measure, tell, and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--small", action="store_true", help="one load, a few rounds")
    flags = parser.parse_args(arguments[1:])
    loads, rounds = (SMALL, 4) if flags.small else (LOADS, flags.rounds)
    record = circumstances(arguments)
    found: dict[tuple[Load, int], list[Run]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        fork_server(Path(folder) / "forks.log", 1) as forks,
    ):
        for again in range(flags.times):
            for load in loads:
                for slices in (2, 1):
                    place = Path(folder) / f"{again}-{load.kib}-{slices}"
                    place.mkdir()
                    one = run(load, slices, rounds, place, forks)
                    found.setdefault((load, slices), []).append(one)
                    say(f"{again + 1}/{flags.times}  {load}, slices={slices}: {one}")
    figures = []
    for (load, slices), runs in found.items():
        share = spread([one.share for one in runs])
        wait_ms = spread([one.wait_ms for one in runs])
        say(
            f"blocks of {load.kib} KiB, cells of {load.sleep_ms:g} ms, slices={slices}: "
            f"waits {share.median:.1%} of the time ({share.least:.1%} to "
            f"{share.most:.1%}), {wait_ms.median:.2f} ms a cell"
        )
        figures.append({**load._asdict(), "slices": slices, "share": share._asdict()})
        figures[-1]["wait_ms"] = wait_ms._asdict()
    is_exact = all(one.is_exact for runs in found.values() for one in runs)
    write("rotation-waits", {**record, "figures": figures})
    return 0 if is_exact else 1
