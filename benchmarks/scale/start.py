"""What paceline adds before a script's first batch, and to its memory.

::

    python -m benchmarks start [--times 5] [--values 100000000]

Commands as a user types them: a plain loop, the same script with paceline in it (embedded),
the demo of two servers and two trainers, and `paceline status` of a job that has ended. All
find their bytecode, as that of an installed library, in a folder of the benchmark's own.

Memory is that above the imports, in times of the values and the optimizer's state.

Waits: for the commands, with a bound each.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.bench import TIMES, Found, Run, bench, flags_of, opt, result
from benchmarks.harness.figures import Figure, Measure, judged, measured
from benchmarks.harness.record import ROOT
from paceline.timing import wall_time_s

PLAIN, EMBEDDED, DEMO, STATUS = SIDES = (
    "plain loop",
    "embedded",
    "demo",
    "paceline status",
)
SCRIPT = Path(__file__).with_name("start_script.py")
PACELINE = ("-m", "paceline.cli.main")
DEMO_WORDS = ("--servers", 2, "--trainers", 2, ROOT / "examples" / "ctr" / "train.py")
LIMIT_S = 300.0
STATES = {"sgd": 1, "adam": 2}  # {optimizer: tensors of its state for each of values}
FEW = 600  # values, where only the begin is timed


class Took(NamedTuple):
    """Seconds, and those of processors."""

    wall_s: float
    cpu_s: float


def wait_command(run: Run, place: Path, *words: object) -> float:
    """Run Python with these words to its end; seconds of processors."""
    environment = {name: at for name, at in os.environ.items() if "BYTECODE" not in name}
    environment |= {"PYTHONPYCACHEPREFIX": str(run.folder / "bytecode")}
    environment |= {"PACELINE_JOB_DIR": str(place / "job"), "PACELINE_QUIET": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (place / "log").open("wb") as log:
        command = [sys.executable, *map(str, words)]
        subprocess.run(
            command, env=environment, stdout=log, stderr=log, timeout=LIMIT_S, check=True
        )
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def begin(side: str, place: Path, run: Run, ended: Path) -> Took:
    """Start one of them; ``ended`` is the folder of a job that is over."""
    job, began_s, wall_s = place / "job", time.monotonic(), wall_time_s()
    if side == STATUS:
        cpu_s = wait_command(run, place, *PACELINE, "status", ended)
        return Took(time.monotonic() - began_s, cpu_s)
    if side == DEMO:
        cpu_s = wait_command(run, place, *PACELINE, "run", "--job-dir", job, *DEMO_WORDS)
        lines = (job / "events.jsonl").read_text(encoding="utf-8").splitlines()
        leased = next(line for line in lines if '"LeaseGranted"' in line)
        return Took(json.loads(leased)["t"] - wall_s, cpu_s)
    words = [*flags_of(out=place, values=FEW, began=began_s), f"--{side.split()[0]}"]
    wait_command(run, place, SCRIPT, *words)
    return Took(*result(place)["began"])


def weigh(run: Run, optimizer: str) -> list[Figure]:
    """What each process holds of a model, at most and behind its last step."""
    figures = []
    for side in (PLAIN, EMBEDDED, "run"):
        place = run.place()
        words = [SCRIPT, *flags_of(out=place, values=run.flags.values, optimizer=optimizer)]
        words += ["--weigh", "--plain" if side == PLAIN else "--embedded"]
        around = (*PACELINE, "run", "--job-dir", place / "job") if side == "run" else ()
        wait_command(run, place, *around, *words)
        found = result(place)
        for role, amounts in found["memory_mb"].items():
            who = side if role == "script" else f"run, {role}"
            for when, mb in zip(("behind a step", "at most"), amounts, strict=True):
                times = mb / found["values_mb"] / (1 + STATES[optimizer])
                what = f"memory {when}, {optimizer}"
                figures.append(Figure(what, who, "ours", "times", (times,)))
    return sorted(figures, key=lambda figure: figure.what)


def over(times: Sequence[Figure]) -> Figure:
    """How far the embedded one is over the plain one."""
    plain, ours = times[:2]
    return ours._replace(values=(ours.median - plain.median,))


@bench("start", TIMES, opt("values", 100_000_000, "of the model that is weighed"))
def main(run: Run) -> Found:
    """Time all of them in turns, then weigh each once."""
    first = run.place()
    begin(DEMO, first, run, first)  # then its data are there
    for side in (PLAIN, EMBEDDED, STATUS):  # and the bytecode of all
        begin(side, run.place(), run, first / "job")
    runs = run.interleaved(
        SIDES,
        lambda side, place: begin(side, place, run, first / "job"),
        lambda side, took: (
            f"{side}: {took.wall_s:.2f} s, {took.cpu_s:.2f} s of a processor"
        ),
    )
    waits = measured(runs, Measure("to the first batch", "s", lambda took: took.wall_s))
    cores = measured(runs, Measure("the same, of processors", "s", lambda took: took.cpu_s))
    ratios = [judged(over(waits), "start"), judged(over(cores), "start-cpu")]
    ratios += [judged(waits[2], "start-demo"), judged(waits[3], "start-status")]
    figures = [*waits, *cores]
    for optimizer in STATES:
        weighed = weigh(run, optimizer)
        figures += weighed
        most = next(one for one in weighed if one.who == EMBEDDED and "most" in one.what)
        ratios.append(judged(most, f"memory-{optimizer}"))
    told = (
        "of the demo, processors were counted to its end; of status, until it had answered"
    )
    return Found(figures, ratios, told)
