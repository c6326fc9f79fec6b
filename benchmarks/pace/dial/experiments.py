"""Runs the experiments about paces, one after the other.

::

    python -m benchmarks dial                    all of them, some minutes each
    python -m benchmarks dial --only bound --seeds 1
    python -m benchmarks dial --page             and puts what was found into docs

Numbers depend on the seeds alone, however busy the machine is.

Waits: for the disk.
"""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness.bench import Run, bench, opt
from benchmarks.harness.record import FOLDER, ROOT, say, table, write
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


def keep(found: Table, where: Mapping[str, object], pictures: Path) -> None:
    """Print a table, keep its record, draw it."""
    print(f"\n{found.title}\n{found.setting}\n\n{table(found.rows)}")
    for doubt in found.doubts:
        print(f"but: {doubt}")
    print(write(f"dial_{found.name}", {**where, **found.record()}))
    draw(found, EXPERIMENTS[found.name].picture, pictures / f"dial-{found.name}.svg")


@bench(
    "dial",
    opt("only", tuple(EXPERIMENTS), choices=tuple(EXPERIMENTS)),
    opt("seeds", SEEDS),
    opt("page", False, "into docs/dial.md, too"),
)
def main(run: Run) -> int:
    """Run, print, keep, draw; see the module."""
    pictures = ROOT / "docs" / "images" if run.flags.page else FOLDER
    clock = SystemClock()
    for name in run.flags.only:
        began_s = clock.now_s()
        found = EXPERIMENTS[name].make(run.flags.seeds)
        say(f"{name}: {clock.now_s() - began_s:.0f} s")
        keep(found, run.where, pictures)
        if run.flags.page:
            text = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(pasted(text, found, run.flags.seeds), encoding="utf-8")
    return 0
