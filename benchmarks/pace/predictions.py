"""Is a forecast right? Written down first, then a real job of the same kind is run.

::

    python -m benchmarks.pace.predictions
    python -m benchmarks.pace.predictions --trainers 2 --batches 60

Four trainers sleep as a model says, so that cores do not matter; records a second are from
the first lease to the last task's end, in the forecast and in the run's events. Then each
is forecast again from what the run has measured of itself.

Waits: for the runs, half a minute each.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.record import circumstances, say, table, write
from paceline.config import JobConfig, Pace, parse_pace
from paceline.events import event_lines
from paceline.launch.commands import UserScript
from paceline.launch.folder import JobDir
from paceline.launch.local import LocalRun, fresh_run_id, wait_local_run
from paceline.simulate.forecast.fit import fit_compute
from paceline.simulate.forecast.job import Forecast, forecast
from paceline.simulate.forecast.models import Compute, Network
from paceline.simulate.forecast.plan import Plan
from paceline.simulate.forecast.written import parse_compute
from paceline.timing import SystemClock
from paceline.watch.progress import open_show

BATCH = 8
COMPUTE = ("straggler:0.05,4,0.2", "slow:0.05,4,1")
PACES = ("sync", "async")
GOAL = 0.15
# One host: a message goes through a socket, and no byte over a cable.
HERE = Network(latency_s=50e-6, bytes_per_s=1e10)


class Case(msgspec.Struct, frozen=True):
    """What is forecast, and then run."""

    pace: str
    compute: str
    plan: Plan

    def predicted(self, compute: Compute | None = None) -> float:
        """Records a second of the whole job, as forecast."""
        plan = self.plan
        if compute is not None:
            plan = msgspec.structs.replace(plan, compute=compute)
        return rate(forecast(plan))


def rate(found: Forecast) -> float:
    """Records a second from the first lease to the end of the last task."""
    return found.records / found.seconds


def plan_of(pace: Pace, compute: str, trainers: int, batches: int) -> Plan:
    """The job of `benchmarks.pace.sleeping`."""
    return Plan(
        trainers=trainers,
        pace=pace,
        records=trainers * batches * BATCH,
        batch_size=BATCH,
        compute=parse_compute("compute", compute),
        network=HERE,
        parameter_bytes=20,
    )


def wait_run(case: Case, folder: Path) -> tuple[float, Compute]:
    """Run a case with real processes: records a second, and what it measured of itself."""
    plan = case.plan
    config = JobConfig(run=fresh_run_id(), trainers=plan.trainers, pace=plan.pace)
    script = Path(__file__).with_name("sleeping.py")
    words = (case.compute, str(plan.seed), str(plan.records), str(BATCH))
    job = JobDir(folder)
    run = LocalRun(config, UserScript(str(script), words), job)
    with (folder.parent / "show").open("w") as output:
        result = wait_local_run(run, open_show(output), SystemClock())
    assert result.summary.records == plan.records, result.summary
    lines = [
        msgspec.json.decode(line, type=dict[str, Any]) for line in event_lines(job.events)
    ]
    began = min(line["t"] for line in lines if line["event"] == "LeaseGranted")
    ended = max(line["t"] for line in lines if line["event"] == "TaskDone")
    return plan.records / (ended - began), fit_compute(event_lines(job.events), "the run")


def main() -> int:
    """Predict, run, compare; 1 if a prediction is off by more than the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainers", type=int, default=4)
    parser.add_argument("--batches", type=int, default=100, help="of each trainer")
    arguments = parser.parse_args()
    cases = [
        Case(
            pace,
            compute,
            plan_of(parse_pace(pace), compute, arguments.trainers, arguments.batches),
        )
        for compute in COMPUTE
        for pace in PACES
    ]
    predicted = [case.predicted() for case in cases]
    record: dict[str, object] = {
        **circumstances(sys.argv),
        "predicted": {
            f"{c.pace} {c.compute}": p for c, p in zip(cases, predicted, strict=True)
        },
    }
    say(f"predicted, before any run: {write('predictions', record)}")
    rows = [("job", "predicted", "real", "off by", "fitted", "off by")]
    worst = 0.0
    real: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n, (case, before) in enumerate(zip(cases, predicted, strict=True)):
            found, measured = wait_run(case, Path(folder) / str(n))
            after = case.predicted(measured)
            worst = max(worst, abs(before / found - 1))
            name = f"{case.pace} {case.compute}"
            real[name] = {"real": found, "predicted": before, "fitted": after}
            rows.append(
                (
                    name,
                    f"{before:.1f}",
                    f"{found:.1f}",
                    f"{100 * (before / found - 1):+.1f} %",
                    f"{after:.1f}",
                    f"{100 * (after / found - 1):+.1f} %",
                )
            )
            say(table(rows))
    print(table(rows))
    write("predictions", {**record, "real": real, "worst": worst})
    print(f"worst {100 * worst:.1f} %, wanted at most {100 * GOAL:.0f} %")
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
