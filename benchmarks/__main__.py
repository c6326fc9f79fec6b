"""Runs one benchmark, or many, one after the other, and says how long each took.

::

    python -m benchmarks NAME [...]  one of them; `NAME --help` says what it takes
    python -m benchmarks             what needs nothing but paceline: `make bench`
    python -m benchmarks peers       what needs other libraries: `make bench-peers`
    python -m benchmarks pace        what paces are worth: `make bench-paces`
    python -m benchmarks tables      what tables do: `make bench-tables`
    python -m benchmarks --small     the same, small: to see that it runs, not to measure
    python -m benchmarks --only codecs,link

One that fails does not keep the next from running.

Waits: for each benchmark, without a bound: each has its own.

Exit status: 0; 1 if one of them ended with another status.
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.harness.record import ROOT, say, table
from paceline.timing import SystemClock


class Command(NamedTuple):
    """One benchmark.

    Args:
        name: by which it is run; its records and goals have it too.
        module: below ``benchmarks``.
        flags: where all of a set are run.
        small: that make it small, behind the others.
    """

    name: str
    module: str
    flags: str = ""
    small: str = "--times 1"

    def words(self, *, is_small: bool) -> list[str]:
        """Its command line, behind ``python``."""
        flags = f"{self.flags} {self.small if is_small else ''}"
        return ["-m", "benchmarks", self.name, *flags.split()]


FEW_STEPS = "--times 1 --ids 50000 --warm 10 --steps 40"
FEW_TRIPS = "--times 1 --trips 200 --large-trips 10"
FEW_TRAINERS = "--trainers 100 --times 2 --seconds 0.5"
SETS = {
    "ours": (
        Command("ctr", "ctr.compare", small=FEW_STEPS),
        Command("dense", "dense.compare", small="--times 1 --steps 40 --rounds 100"),
        Command("step_cost", "dense.step_cost", small="--times 1 --blocks 2 --models both"),
        Command("transport", "transport.compare", "--peers torch", FEW_TRIPS),
        Command("codecs", "ctr.codecs"),
        Command("bookkeeping", "ctr.bookkeeping", small=FEW_STEPS),
        Command("readers", "ctr.readers", "--no-peer", "--times 1 --records 2000"),
        Command(
            "two_trainers",
            "dense.two_trainers",
            small="--times 1 --model dense --steps 60 --paces async",
        ),
        Command("start", "scale.start", small="--times 1 --values 600000"),
        Command("scaling", "scale.scaling", small="--sizes 1,2 --steps 8"),
        Command("link", "dense.link", small="--times 1 --steps 4"),
        Command("far", "transport.far", small="--times 1 --trips 2"),
        Command("round_trips", "transport.round_trips", small="--times 1 --steps 8"),
        Command("recovery", "recovery.compare", "--times 10", "--times 2"),
        Command(
            "coordinator_scale",
            "scale.coordinator_scale",
            small=f"{FEW_TRAINERS} --tasks 100000",
        ),
        Command("server_scale", "scale.server_scale", small=FEW_TRAINERS),
        Command("simulator", "scale.simulator", small="--trainers 100 --steps 10"),
    ),
    "peers": (
        Command("transport", "transport.compare", small=FEW_TRIPS),
        Command("readers", "ctr.readers", small="--times 1 --records 2000"),
        Command(
            "ctr_peers", "ctr.peers", small="--times 1 --ids 100000 --warm 10 --steps 20"
        ),
    ),
    "pace": (
        Command("paces", "pace.stragglers"),
        Command("diloco", "pace.diloco", small="--times 1 --batches 400 --rates 0.02"),
        Command("dial", "pace.dial.experiments", small="--only bound --seeds 1"),
        Command("predictions", "pace.predictions", small="--trainers 2 --batches 20"),
    ),
    "tables": (
        Command(
            "factorisation",
            "tables.factorisation.compare",
            small="--times 1 --data movielens --models rotation",
        ),
        Command(
            "topics",
            "tables.topics.compare",
            small="--data reuters --topics 20 --epochs 20 --target-epoch 10 --times 1",
        ),
        Command(
            "clusters", "tables.clusters.compare", small="--data digits --no-peer --times 1"
        ),
        Command("classification", "tables.classification.compare", small="--small"),
        Command(
            "factorisation_models",
            "tables.factorisation.models",
            small="--models rotation,push-pull --rates 0.02",
        ),
    ),
}
MODULES = {
    **{command.name: command.module for found in SETS.values() for command in found},
    "page": "harness.page",
}


def chosen(which: str, only: str) -> list[Command]:
    """The benchmarks of a set, all or those that are named.

    Raises:
        ValueError: one is named that is not in it.
    """
    names = [name for name in only.split(",") if name]
    known = {command.name: command for command in SETS[which]}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{unknown[0]!r}: expected one of {', '.join(known)}")
    return [known[name] for name in names or known]


def main(arguments: Sequence[str]) -> int:
    """Run one, or many; see the module."""
    if (name := arguments[1] if len(arguments) > 1 else "") in MODULES:
        module = importlib.import_module(f"benchmarks.{MODULES[name]}")
        status: int = module.main(arguments[1:])
        return status
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description=__doc__,
        epilog=f"NAME is one of {', '.join(MODULES)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("set", nargs="?", choices=sorted(SETS), default="ours")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="", help="names, with commas")
    flags = parser.parse_args(arguments[1:])
    try:
        commands = chosen(flags.set, flags.only)
    except ValueError as error:
        parser.error(str(error))
    clock, rows, is_whole = SystemClock(), [["benchmark", "seconds", "status"]], True
    for command in commands:
        words = command.words(is_small=flags.small)
        say(f"== python {' '.join(words)}")
        began_s = clock.now_s()
        status = subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode
        is_whole = is_whole and not status
        rows.append([command.name, f"{clock.now_s() - began_s:.0f}", str(status)])
    print(f"\n{table(rows)}")
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
