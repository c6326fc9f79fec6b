"""What the benchmark of recovery kills is really killed, and comes back."""

from pathlib import Path

import pytest

from benchmarks.recovery.compare import trainer_figures
from benchmarks.recovery.coordinator import wait_coordinator_times
from benchmarks.recovery.kills import KillPlan, wait_killed
from paceline.launch.processes.forkserver import ForkServer

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]


def test_a_killed_trainer_is_timed_and_the_job_ends_well(
    tmp_path: Path, forks: ForkServer
) -> None:
    plan = KillPlan("async", ("trainer-0",), times=1, trainers=2)

    killed = wait_killed(plan, tmp_path / "job", forks)

    lost = [event for event in killed.events if event["event"] == "TrainerLost"]
    assert [event["trainer"] for event in lost] == ["trainer-0"]
    assert abs(lost[0]["t"] - killed.kills[0].moment) < 60.0
    (quiet, _), (stalled, goal), _ = trainer_figures("async", killed)
    assert quiet.values
    assert stalled.values
    assert goal == "stall-async"


def test_a_coordinator_is_killed_and_answers_with_every_task(
    tmp_path: Path, forks: ForkServer
) -> None:
    seconds = wait_coordinator_times(2, 300, tmp_path / "job", forks)
    assert len(seconds) == 2
    assert min(seconds) > 0.0
