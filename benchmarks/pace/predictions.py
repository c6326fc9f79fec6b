"""Is a forecast right? Written down first, then real jobs of other sizes are run.

::

    python -m benchmarks predictions
    python -m benchmarks predictions --trainers 2,4 --paces sync --batches 40

One run calibrates: as many trainers as no later job has, under `CALIBRATED`. What its
`events.jsonl` tells of computing is all that the forecasts know. Those of every number of
trainers and every pace are written to a file, with the moment, before the first of those
jobs is started. Trainers sleep as a model says, so that eight fit on two cores; records a
second are from the first lease to the last task's end, in the forecast and in the events.

Waits: for the runs, half a minute each.

Exit status: 0; 1 if a prediction is off by more than `GOAL`; 2 for numbers of trainers that
the calibration has, too.
"""

import argparse
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.record import circumstances, say, table, write
from paceline.config import JobConfig, parse_pace
from paceline.events import event_lines
from paceline.forecast.job import forecast
from paceline.forecast.models.fitting import Fitted, fit
from paceline.forecast.models.models import Network
from paceline.forecast.plan import Plan
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.timing import SystemClock
from paceline.watch.progress import open_show

BATCH = 8
SLEEP = "lognormal:0.07,0.5"  # long enough that a loaded machine is no large part of it
SEEDS = 5  # of forecasts, averaged; the real job has luck of its own
PACES = ("sync", "ssp:3", "async")
TRAINERS = (2, 4, 8)
CALIBRATED = ("async", 3)  # pace and trainers of the run that forecasts are made from
GOAL = 0.15
# One host: a message goes through a socket, and no byte over a cable.
HERE = Network(latency_s=50e-6, bytes_per_s=1e10)


class Case(msgspec.Struct, frozen=True):
    """One real job of `pace.sleeping`."""

    pace: str
    trainers: int
    batches: int  # of each trainer
    seed: int

    @property
    def name(self) -> str:
        """Read like ``ssp:3, 4 trainers``."""
        return f"{self.pace}, {self.trainers} trainers"

    @property
    def records(self) -> int:
        """Of the whole job."""
        return self.trainers * self.batches * BATCH

    def predicted(self, fitted: Fitted) -> float:
        """Records a second, as forecast; by other seeds than the job's: it is no replay."""
        plan = Plan(
            trainers=self.trainers,
            pace=parse_pace(self.pace),
            records=self.records,
            batch_size=BATCH,
            compute=fitted.compute,
            pauses=fitted.pauses,
            network=HERE,
            parameter_bytes=20,
        )
        seeds = range(100, 100 + SEEDS)
        taken_s = [forecast(msgspec.structs.replace(plan, seed=n)).seconds for n in seeds]
        return self.records / (sum(taken_s) / SEEDS)


def wait_run(case: Case, folder: Path) -> tuple[float, Path]:
    """Run a case with real processes: records a second, and its event log."""
    config = JobConfig(
        run=fresh_run_id(), trainers=case.trainers, pace=parse_pace(case.pace)
    )
    script = Path(__file__).with_name("sleeping.py")
    words = (SLEEP, str(case.seed), str(case.records), str(BATCH))
    job = JobDir(folder)
    run = LocalRun(config, UserScript(str(script), words), job)
    with (folder.parent / "show").open("w") as output:
        result = wait_local_run(run, open_show(output), SystemClock())
    assert result.summary.records == case.records, result.summary
    lines = [
        msgspec.json.decode(line, type=dict[str, Any]) for line in event_lines(job.events)
    ]
    began = min(line["t"] for line in lines if line["event"] == "LeaseGranted")
    ended = max(line["t"] for line in lines if line["event"] == "TaskDone")
    return case.records / (ended - began), job.events


def calibrate(batches: int, folder: Path) -> tuple[float, float, Fitted]:
    """Run once and fit: its records a second, forecast and real, and what was fitted."""
    pace, trainers = CALIBRATED
    case = Case(pace, trainers, batches, seed=1000)
    found, events = wait_run(case, folder)
    fitted = fit(event_lines(events), str(events))
    return case.predicted(fitted), found, fitted


def main(arguments: Sequence[str]) -> int:
    """Calibrate, predict, run, compare; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainers", default=",".join(map(str, TRAINERS)))
    parser.add_argument("--paces", default=" ".join(PACES), help="apart by spaces")
    parser.add_argument("--batches", type=int, default=150, help="of each trainer")
    flags = parser.parse_args(arguments[1:])
    numbers = [int(number) for number in flags.trainers.split(",")]
    if CALIBRATED[1] in numbers:
        say(f"expected other numbers of trainers than {CALIBRATED[1]}: that calibrates")
        return 2
    cases = [
        Case(pace, trainers, flags.batches, seed)
        for seed, trainers in enumerate(numbers)
        for pace in flags.paces.split()
    ]
    where = circumstances(arguments)
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as name:
        folder = Path(name)
        again, told, fitted = calibrate(flags.batches, folder / "calibrated")
        of = f"{CALIBRATED[0]}, {CALIBRATED[1]} trainers"
        say(f"{of}: {told:.1f} records/s, {again:.1f} when forecast from its own events")
        predicted = {case.name: case.predicted(fitted) for case in cases}
        record: dict[str, object] = {
            **where,
            "calibrated": {"by": of, "real": told, "fitted": again},
            "predicted": predicted,
            "predicted_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        say(f"predicted, before any of these runs: {write('predictions', record)}")
        rows = [("job", "predicted", "real", "off by")]
        worst, real = 0.0, {}
        for number, case in enumerate(cases):
            found, _ = wait_run(case, folder / str(number))
            off = predicted[case.name] / found - 1
            worst, real[case.name] = max(worst, abs(off)), found
            figures = (f"{predicted[case.name]:.1f}", f"{found:.1f}", f"{100 * off:+.1f} %")
            rows.append((case.name, *figures))
            say("  ".join(rows[-1]))
    print(table(rows))
    print(f"\n{write('predictions', {**record, 'real': real, 'worst': worst})}")
    print(f"worst {100 * worst:.1f} %, wanted at most {100 * GOAL:.0f} %")
    return int(worst > GOAL)
