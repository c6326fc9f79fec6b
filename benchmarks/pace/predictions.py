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

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.bench import Run, bench, opt
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import say, table, write
from paceline.config import parse_pace
from paceline.events import event_lines
from paceline.forecast.fitting import Fitted, fit
from paceline.forecast.job import forecast
from paceline.forecast.models import Network
from paceline.forecast.plan import Plan
from paceline.launch.job.folder import JobDir

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


def wait_run(case: Case, run: Run) -> tuple[float, Path]:
    """Run a case with real processes: records a second, and its event log."""
    script, place = Path(__file__).with_name("sleeping.py"), run.place()
    words = (SLEEP, case.seed, case.records, BATCH)
    config = job_config(case.pace, trainers=case.trainers)
    summary = run.job(script, words, place, config)
    assert summary.records == case.records, summary
    events = JobDir(place / "job").events
    lines = [msgspec.json.decode(line, type=dict[str, Any]) for line in event_lines(events)]
    began = min(line["t"] for line in lines if line["event"] == "LeaseGranted")
    ended = max(line["t"] for line in lines if line["event"] == "TaskDone")
    return case.records / (ended - began), events


def calibrate(run: Run) -> tuple[float, float, Fitted]:
    """Run once and fit: its records a second, forecast and real, and what was fitted."""
    pace, trainers = CALIBRATED
    case = Case(pace, trainers, run.flags.batches, seed=1000)
    found, events = wait_run(case, run)
    fitted = fit(event_lines(events), str(events))
    return case.predicted(fitted), found, fitted


@bench(
    "predictions",
    opt("trainers", TRAINERS),
    opt("paces", " ".join(PACES), "apart by spaces"),
    opt("batches", 150, "of each trainer"),
)
def main(run: Run) -> int:
    """Calibrate, predict, run, compare; see the module."""
    if CALIBRATED[1] in run.flags.trainers:
        say(f"expected other numbers of trainers than {CALIBRATED[1]}: that calibrates")
        return 2
    cases = [
        Case(pace, trainers, run.flags.batches, seed)
        for seed, trainers in enumerate(run.flags.trainers)
        for pace in run.flags.paces.split()
    ]
    again, told, fitted = calibrate(run)
    of = f"{CALIBRATED[0]}, {CALIBRATED[1]} trainers"
    say(f"{of}: {told:.1f} records/s, {again:.1f} when forecast from its own events")
    predicted = {case.name: case.predicted(fitted) for case in cases}
    record: dict[str, object] = {
        **run.where,
        "calibrated": {"by": of, "real": told, "fitted": again},
        "predicted": predicted,
        "predicted_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    say(f"predicted, before any of these runs: {write('predictions', record)}")
    rows, real = [["job", "predicted", "real", "off by"]], dict[str, float]()
    for case in cases:
        real[case.name], _ = wait_run(case, run)
        off = 100 * (predicted[case.name] / real[case.name] - 1)
        figures = (f"{predicted[case.name]:.1f}", f"{real[case.name]:.1f}", f"{off:+.1f} %")
        rows.append([case.name, *figures])
        say("  ".join(rows[-1]))
    worst = max(abs(predicted[name] / found - 1) for name, found in real.items())
    print(table(rows))
    print(f"\n{write('predictions', {**record, 'real': real, 'worst': worst})}")
    print(f"worst {100 * worst:.1f} %, wanted at most {100 * GOAL:.0f} %")
    return int(worst > GOAL)
