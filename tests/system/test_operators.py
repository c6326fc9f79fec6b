"""A job in real processes is told to save, and to end; it goes on exactly."""

import json
from pathlib import Path

import pytest

from paceline.config import Async, JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.job.operating import call_until_done
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.messages.shared import Done, Message
from paceline.messages.trainer import Saved
from paceline.messages.watching import Interrupt, TakeCut
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending
from tests.system.events import events_of
from tests.system.test_elastic import Conductor

SCRIPT = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
SIZES = ("--records", "9600", "--ids", "300", "--epochs", "1", "--task-size", "160")
CLOCK = SystemClock()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(0)
def test_an_operator_saves_and_interrupts_a_run_which_goes_on_exactly(
    tmp_path: Path, forks: ForkServer
) -> None:
    job, out = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    answers: list[Message] = []

    def run(*, is_resumed: bool = False) -> RunResult:
        config = JobConfig(
            run=fresh_run_id(), trainers=2, servers=1, pace=Async(), cut_every_s=0.0
        )
        script = UserScript(str(SCRIPT), (*SIZES, "--sleep-ms", "10", "--out", str(out)))
        with out.with_suffix(".log").open("a") as log:
            return wait_local_run(
                LocalRun(config, script, job, is_resumed),
                open_show(log),
                CLOCK,
                forks=forks,
            )

    def ask(message: Message) -> None:
        answers.append(call_until_done(job, message, CLOCK))

    conductor = Conductor(job)
    conductor.at(conductor.leased(6), lambda: ask(TakeCut(wish="a")))
    conductor.at(conductor.leased(3), lambda: ask(Interrupt()))
    with conductor:
        ended = run()
    saved, done = answers
    assert isinstance(saved, Saved)
    assert done == Done()
    assert ended.verdict.ending is Ending.INTERRUPTED
    cuts = [event["cut"] for event in events_of(job.path, "CutCommitted")]
    assert saved.cut in cuts
    assert ended.verdict.reason == f"interrupted; saved as cut {cuts[-1]}"
    assert cuts[-1] > saved.cut
    assert 0 < ended.summary.records < 9600

    assert run(is_resumed=True).verdict.exit_code == 0
    assert json.loads(out.read_text())["exact"], out.read_text()
