"""Runs the experiments about paces, one after the other.

::

    python -m benchmarks dial                    all of them, some minutes each
    python -m benchmarks dial --only bound --seeds 1
    python -m benchmarks dial --page             and puts what was found into docs

Numbers depend on the seeds alone, however busy the machine is.

Waits: for the disk.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness.record import FOLDER, ROOT, circumstances, say, table, write
from benchmarks.pace.dial.ages import ages
from benchmarks.pace.dial.drawing import draw
from benchmarks.pace.dial.local import steps
from benchmarks.pace.dial.modes import bound, time_to_loss
from benchmarks.pace.dial.pasted import pasted
from benchmarks.pace.dial.rounds import arrivals, backups
from benchmarks.pace.dial.table import Experiment, Table
from paceline.timing import SystemClock

EXPERIMENTS: Mapping[str, Experiment] = {
    "slowness": Experiment(time_to_loss, "bars"),
    "bound": Experiment(bound, "panels"),
    "arrivals": Experiment(arrivals, "chances"),
    "backups": Experiment(backups, "panels"),
    "ages": Experiment(ages, "pairs"),
    "local": Experiment(steps, "pairs"),
}
PAGE = ROOT / "docs" / "dial.md"
SEEDS = 3


def chosen(only: str) -> list[str]:
    """Which experiments are meant: all, or those that are named.

    Raises:
        ValueError: one is named that there is not.
    """
    names = [name for name in only.split(",") if name]
    for name in names:
        if name not in EXPERIMENTS:
            raise ValueError(f"{name!r}: expected one of {', '.join(EXPERIMENTS)}")
    return names or list(EXPERIMENTS)


def keep(found: Table, arguments: Sequence[str], pictures: Path) -> None:
    """Print a table, keep its record, draw it."""
    print(f"\n{found.title}\n{found.setting}\n\n{table(found.rows)}")
    for doubt in found.doubts:
        print(f"but: {doubt}")
    print(write(f"dial_{found.name}", {**circumstances(arguments), **found.record()}))
    draw(found, EXPERIMENTS[found.name].picture, pictures / f"dial-{found.name}.svg")


def main(arguments: Sequence[str]) -> int:
    """Run, print, keep, draw; see the module."""
    parser = argparse.ArgumentParser(prog="benchmarks dial", description=__doc__)
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--page", action="store_true", help="into docs/dial.md, too")
    flags = parser.parse_args(arguments[1:])
    try:
        names = chosen(flags.only)
    except ValueError as error:
        parser.error(str(error))
    pictures = ROOT / "docs" / "images" if flags.page else FOLDER
    clock = SystemClock()
    for name in names:
        began_s = clock.now_s()
        found = EXPERIMENTS[name].make(flags.seeds)
        say(f"{name}: {clock.now_s() - began_s:.0f} s")
        keep(found, arguments, pictures)
        if flags.page:
            text = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(pasted(text, found, flags.seeds), encoding="utf-8")
    return 0
