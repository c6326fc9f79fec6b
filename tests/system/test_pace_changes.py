"""The counting job in real processes changes its pace again and again: exact.

`make test` changes it ten times; `make soak` kills trainers, servers and the coordinator
meanwhile. A change that was refused, or that did not come, fails the test.
"""

import json
import os
from pathlib import Path

import pytest

from paceline.config import JobConfig, parse_pace
from paceline.errors import TransportError, UsageError
from paceline.failpoints import ARM_VARIABLE, parse
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.job.operating import call_until_done
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.messages.watching import ChangePace
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.events import events_of
from tests.system.test_elastic import Conductor

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
FIRST = "sync:reduce=sum"
SIZES = ("--ids", "300", "--epochs", "2", "--task-size", "160")
CHANGES = (
    "ssp:2",
    "async",
    "async:push=4,pull=8",
    "sync:reduce=sum,backup=1,late=again",
    "async:push=1,pull=2",
    "ssp:0",
    "sync:reduce=sum",
    "async:merge=4",
    "sync:reduce=sum,backup=1,late=again",
    "ssp:1",
)
FAULTS = (
    "trainer.before_submit_rest=kill@60x2;trainer.between_acks=kill@70x2;"
    "coordinator.before_journal=kill@90x2;coordinator.before_reply=kill@120x2;"
    "server.before_paces=kill@2x2;trainer.before_tick=kill@90x2"
)
CLOCK = SystemClock()


class PaceConductor:
    """Asks for one pace after the other, each a few leases after the one before."""

    def __init__(self, job: JobDir, changes: tuple[str, ...]) -> None:
        self.job = job
        self.conductor = Conductor(job)
        for text in changes:
            self.conductor.at(self.conductor.leased(3), self._asking(text))

    def _asking(self, text: str) -> object:
        message = ChangePace(pace=parse_pace(text))

        def ask() -> None:
            while True:
                try:
                    call_until_done(self.job, message, CLOCK, lambda _: None)
                except (
                    TransportError,
                    UsageError,
                ):  # the coordinator comes back, or is over
                    if not Path(self.job.read_run().sockets).is_dir():  # type: ignore[union-attr]
                        return
                else:
                    return

        return ask


def run_changing(
    job: JobDir, forks: ForkServer, out: Path, arguments: tuple[str, ...], faults: str = ""
) -> RunResult:
    config = JobConfig(
        run=fresh_run_id(),
        trainers=3,
        servers=2,
        pace=parse_pace(FIRST),
        timeout_s=20.0,
        cut_every_s=4.0,
    )
    script = UserScript(str(SCRIPT), (*arguments, "--out", str(out)))
    with out.with_suffix(".log").open("w") as log:
        show = open_show(log)
        result = wait_local_run(
            LocalRun(config, script, job),
            show,
            CLOCK,
            environment={**os.environ, ARM_VARIABLE: faults},
            forks=forks,
        )
        show.close()
    return result


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(0)
def test_ten_changes_of_pace_leave_the_counts_exact(
    tmp_path: Path, forks: ForkServer
) -> None:
    job, out = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    arguments = ("--records", "12000", *SIZES)
    paces = PaceConductor(job, CHANGES)
    with paces.conductor:
        result = run_changing(job, forks, out, (*arguments, "--sleep-ms", "10"))
    assert result.verdict.exit_code == 0, result.verdict
    assert json.loads(out.read_text())["exact"], out.read_text()
    changed = [event["paces"] for event in events_of(job.path, "PaceChanged")]
    assert changed == [{"0": text} for text in CHANGES]
    assert not events_of(job.path, "Returned")
    last = job.read_status()
    assert last is not None
    assert last.pace == CHANGES[-1]


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("turn", range(3))
def test_changes_of_pace_under_kills_leave_the_counts_exact(
    turn: int, tmp_path: Path, forks: ForkServer
) -> None:
    job, out = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    arguments = ("--records", "16000", *SIZES)
    changes = CHANGES[turn:] + CHANGES[:turn]
    paces = PaceConductor(job, changes)
    with paces.conductor:
        result = run_changing(job, forks, out, (*arguments, "--sleep-ms", "20"), FAULTS)
    assert result.verdict.exit_code == 0, result.verdict
    assert json.loads(out.read_text())["exact"], out.read_text()
    changed = [event["paces"] for event in events_of(job.path, "PaceChanged")]
    fired = {path.name.rsplit(".", 1)[0] for path in job.failpoints.iterdir()}
    print(f"{len(changed)} changes; {sorted(fired)}; {result.summary.restarts}")  # noqa: T201  (the figures of a soak)
    assert len(changed) >= len(changes) // 2
    assert fired == set(parse(FAULTS)), "a fault was not injected"
