"""A byte of the newest cut turns, and a server dies: the job goes on from an older cut.

`make soak` does it again and again, with deaths of the others beside it.
"""

import json
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, RandomKills, wait_chaos
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.events import events_of
from tests.system.test_kills import ASYNC, LONG, SCRIPT, SYNC, told

COUNTING = ("--records", "3200", "--ids", "100", "--epochs", "2", "--task-size", "160")
DAMAGING = Path(__file__).with_name("damaging_job.py")


@pytest.mark.system
@pytest.mark.timeout(0)
def test_counts_are_exact_after_a_return_behind_a_damaged_cut(
    tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        SYNC,
        (*COUNTING, "--sleep-ms", "80"),
        kills=RandomKills(0, 1, 0.1, ("server",), damages=True),
        trainers=2,
        cut_every_s=0.5,
        limit_s=600.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.faults["damaged cut"] == report.faults["kill server"] == 1
    (skipped,) = events_of(tmp_path / "job", "CutSkipped")
    damaged, older = report.returns
    assert (skipped["cut"], damaged > older) == (damaged, True)
    assert ".safetensors: expected xxh3" in str(skipped["reason"])


@pytest.mark.system
@pytest.mark.timeout(0)
def test_a_job_without_any_whole_cut_fails_and_names_the_files(
    tmp_path: Path, forks: ForkServer
) -> None:
    job = JobDir(tmp_path / "job")
    config = JobConfig(run="run", trainers=1, servers=1, keep_cuts=1, cut_every_s=3600.0)
    script = UserScript(str(DAMAGING), ())
    with (tmp_path / "out").open("w") as out:
        show = open_show(out)
        run = LocalRun(config, script, job)
        result = wait_local_run(run, show, SystemClock(), forks=forks)
        show.close()
    assert result.verdict.exit_code == 1
    for said in ("cut-000000-t0/server-0.safetensors: expected xxh3", "no older one"):
        assert said in result.verdict.reason
    assert json.loads(job.summary.read_text())["status"] == "failed"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(6))
def test_counts_are_exact_while_cuts_are_damaged_and_anybody_dies(
    seed: int, tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        SYNC if seed % 2 else ASYNC,
        (*LONG, "--sleep-ms", "80"),
        kills=RandomKills(200 + seed, 6, 30.0, ("server", "trainer"), damages=True),
        cut_every_s=2.0,
        limit_s=1800.0,
    )
    report = told(wait_chaos(plan, tmp_path, forks))
    assert report.is_exact(), report.verdict
    assert report.faults["damaged cut"] == 6
