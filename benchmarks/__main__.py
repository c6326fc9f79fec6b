"""Runs many benchmarks, one after the other, and says how long each took.

::

    python -m benchmarks             what needs nothing but paceline: `make bench`
    python -m benchmarks peers       what needs other libraries: `make bench-peers`
    python -m benchmarks --small     the same, small: to see that it runs, not to measure
    python -m benchmarks --only codecs,link

One that fails does not keep the next from running.

Waits: for each benchmark, without a bound: each has its own.

Exit status: 0; 1 if one of them ended with another status.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.record import ROOT, say, table
from paceline.timing import SystemClock


class Command(NamedTuple):
    """One benchmark.

    Args:
        name: its module.
        flags: of `make bench`.
        small: that make it small, behind the others.
    """

    name: str
    flags: str = ""
    small: str = "--times 1"

    def words(self, *, is_small: bool) -> list[str]:
        """Its command line, behind ``python``."""
        flags = f"{self.flags} {self.small if is_small else ''}"
        return ["-m", f"benchmarks.{self.name}", *flags.split()]


OURS = (
    Command("ctr", small="--times 1 --ids 50000 --warm 10 --steps 40"),
    Command("dense", small="--times 1 --steps 40 --rounds 100"),
    Command("step_cost", small="--times 1 --blocks 2 --models both"),
    Command("changed_values", small="--times 1 --looks 1"),
    Command("transport", "--peers torch", "--times 1 --trips 200 --large-trips 10"),
    Command("codecs"),
    Command("bookkeeping", small="--times 1 --ids 50000 --warm 10 --steps 40"),
    Command("scaling", small="--sizes 1,2 --steps 8"),
    Command("link", small="--times 1 --steps 4"),
    Command("recovery", "--times 10", "--times 2"),
    Command(
        "coordinator_scale",
        small="--trainers 100 --times 2 --seconds 0.5 --tasks 100000",
    ),
    Command("server_scale", small="--trainers 100 --times 2 --seconds 0.5"),
    Command("simulator", small="--trainers 100 --steps 10"),
)
PEERS = (
    Command("transport", small="--times 1 --trips 200 --large-trips 10"),
    Command("ctr_peers", small="--times 1 --ids 100000 --warm 10 --steps 20"),
)
SETS = {"ours": OURS, "peers": PEERS}


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
    """Run them; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
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
