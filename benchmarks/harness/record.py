"""What every benchmark writes down, so that its numbers can be made again.

A record holds command, commit, machine, versions, date and who else was at work beside the
figures.

Waits: for git, for the disk, and a second to see who else is at work.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench"
LOOK_S = 1.0
BUSY_SHARE = 0.15  # of all processors; more, and a record is a hint
LIBRARIES = ("torch", "numpy", "numba", "msgspec")


class Spread(NamedTuple):
    """Repeated measurements of one thing."""

    median: float
    least: float
    most: float
    times: int


def spread(values: Sequence[float]) -> Spread:
    """Median, ends and number of measurements; at least one."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def circumstances(arguments: Sequence[str]) -> dict[str, object]:
    """Where, when and how a benchmark ran.

    Args:
        arguments: its name, and what followed it on the command line.
    """
    others = busy_share()
    if others >= BUSY_SHARE:
        say(f"others use {others:.0%} of the machine: what follows is no more than a hint")
    return {
        "command": " ".join(["python -m benchmarks", *arguments]),
        "commit": _git("rev-parse", "HEAD"),
        "is_changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores",
        "load_1m": round(os.getloadavg()[0], 1),
        "busy_share": others,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
    }


def busy_share(seconds: float = LOOK_S) -> float:
    """Which share of all processors others use just now; looks for so long.

    The load average would still be full of the benchmark before this one.
    """
    return float(round(psutil.cpu_percent(seconds) / 100, 2))


def write(name: str, record: dict[str, object]) -> Path:
    """Keep a record as JSON below ``build/bench``; returns where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = FOLDER / f"{name}-{moment}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as columns of text: the first left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def say(text: str) -> None:
    """Tell how it goes, beside the result."""
    print(text, file=sys.stderr, flush=True)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
