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

Exit status: 1 if one is off by more than is wanted; 2 for numbers of trainers that the
calibration has, too.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness.bench import Run, bench, opt
from benchmarks.harness.figures import Figure, Found, Ratio, judged
from benchmarks.harness.processes import job_config
from benchmarks.harness.record import say, write
from paceline.config import parse_pace
from paceline.events import event_lines
from paceline.forecast.fitting import Fitted, fit
from paceline.forecast.job import forecast
from paceline.forecast.models import Network
from paceline.forecast.plan import Plan
from paceline.launch.job.folder import JobDir

BATCH = 8
SLEEP = "lognormal:0.07,0.5"  # long enough that a loaded machine is no large part of it
BATCHES = 150  # of each trainer
SEEDS = 5  # of forecasts, averaged; the real job has luck of its own
PACES = ("sync", "ssp:3", "async")
TRAINERS = (2, 4, 8)
CALIBRATED = ("async", 3)  # pace and trainers of the run that forecasts are made from
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
    opt("batches", BATCHES, "of each trainer"),
    must=["predictions"],
)
def main(run: Run) -> Found | int:
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
        "calibrated": {"by": of, "real": told, "fitted": again},
        "predicted": predicted,
        "predicted_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = write("predictions", {**run.where, **record})
    say(f"predicted, before any of these runs: {path}")
    figures, ratios = list[Figure](), list[Ratio]()
    for case in cases:
        real, _ = wait_run(case, run)
        told = predicted[case.name]
        figures += [
            Figure(case.name, who, "ours", "records/s", (rate,), is_more_better=True)
            for who, rate in (("predicted", told), ("real", real))
        ]
        if run.flags.batches >= BATCHES:  # fewer say nothing of the goal
            off = abs(100 * (told / real - 1))
            ratios.append(judged(figures[-2], "predictions", off, "real"))
        say(f"{case.name}: {told:.1f} predicted, {real:.1f} real")
    return Found(figures, ratios, "written down before the jobs ran", more=record)
