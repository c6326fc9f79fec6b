"""What a machine says of itself that joins a job."""

from pathlib import Path

import pytest

from paceline.cli.elsewhere import host as host_command
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.guests import JobOver
from paceline.launch.hosts import AnotherSecret, HostPlan, NotLetIn, RunGone
from paceline.launch.job import JobDir, RunFile, write_secret
from paceline.timing import ManualClock
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret
from tests.cli.running import exit_code


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[HostPlan]:
    """Of hosts that would have joined."""
    made: list[HostPlan] = []

    def wait_host(plan: HostPlan, *_: object) -> JobOver:
        made.append(plan)
        return JobOver("the job is over", 0)

    monkeypatch.setattr(host_command, "REFUSED_S", 0.0)
    monkeypatch.setenv("PACELINE_SECRET", Secret.fresh().text())
    monkeypatch.setattr(host_command, "wait_host", wait_host)
    return made


def test_a_host_is_reached_by_its_way_to_the_launcher(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan]
) -> None:
    assert exit_code(monkeypatch, "host", "--join", "127.0.0.1:7070") == 0

    [plan] = plans
    assert plan.launcher == TcpAddress("127.0.0.1", 7070)
    assert str(plan.own) == "tcp:127.0.0.1:0"


def test_flags_say_otherwise_and_so_does_the_environment(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan]
) -> None:
    monkeypatch.setenv("PACELINE_ADVERTISE", "b.example")
    monkeypatch.setenv("PACELINE_PORTS", "7100-7109")
    monkeypatch.setenv("PACELINE_NETWORK", "lo")
    join = ["host", "--join", "launcher.example:7070"]

    assert exit_code(monkeypatch, *join) == 0
    flags = ["--advertise", "c.example", "--network", "127.0.0.0/8", "--ports", "1-2"]
    assert exit_code(monkeypatch, *join, *flags) == 0

    owns = [str(plan.own) for plan in plans]
    assert owns == ["tcp:b.example:7100-7109@127.0.0.1", "tcp:c.example:1-2@127.0.0.1"]
    assert plans[0].launcher == TcpAddress("launcher.example", 7070)


def test_who_would_be_reached_by_nobody_is_told_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plans: list[HostPlan],
) -> None:
    options = ["--join", "launcher.example:7070", "--network", "lo"]

    assert exit_code(monkeypatch, "host", *options) == 2

    assert (
        "--network lo: 127.0.0.1 is this machine for everybody" in capsys.readouterr().err
    )
    assert not plans


RUN = RunFile("r", "tcp:127.0.0.1:5", "/nowhere", 7, is_plain=True)


def test_a_job_folder_says_where_and_has_the_secret(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan], tmp_path: Path
) -> None:
    job, secret = JobDir(tmp_path), Secret.fresh()
    write_secret(job.secret, secret)
    job.write_run(RUN)
    job.write_door("127.0.0.1:7070")

    assert exit_code(monkeypatch, "host", "--join", f"file://{tmp_path}") == 0

    [plan] = plans
    assert plan.launcher == TcpAddress("127.0.0.1", 7070)
    assert plan.secret.text() == secret.text() != ""
    assert plan.is_plain


def test_the_folder_is_looked_at_anew_where_nobody_lets_it_in(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plans: list[HostPlan],
    tmp_path: Path,
) -> None:
    """The run that it told of was killed; another one goes on, and ends."""
    job = JobDir(tmp_path)
    write_secret(job.secret, Secret.fresh())
    job.write_run(RUN)
    job.write_door("127.0.0.1:7070")

    def wait_host(plan: HostPlan, *_: object) -> JobOver:
        plans.append(plan)
        assert plan.join_within_s == host_command.LOOK_AGAIN_S
        if len(plans) == 1:
            job.write_door("127.0.0.1:7071")
        else:
            job.write_end(None, {"status": "finished", "ending": "trained"})
        raise NotLetIn("nobody listens")

    monkeypatch.setattr(host_command, "wait_host", wait_host)
    assert exit_code(monkeypatch, "host", "--join", str(tmp_path)) == 0

    assert [plan.launcher.port for plan in plans] == [7070, 7071]
    assert f"the job in {tmp_path} is over" in capsys.readouterr().err


GONE = RunGone("nothing was heard")
INTERRUPTED = RunGone("the run was interrupted", is_interrupted=True)


@pytest.mark.parametrize(("gone", "code"), [(GONE, 1), (INTERRUPTED, PREEMPTED_EXIT_CODE)])
def test_who_does_not_join_again_says_whether_its_run_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
    plans: list[HostPlan],
    capsys: pytest.CaptureFixture[str],
    gone: RunGone,
    code: int,
) -> None:
    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [gone]))
    assert exit_code(monkeypatch, "host", "--join", "127.0.0.1:7070") == code
    assert str(gone) in capsys.readouterr().err
    assert plans[0].reached_within_s == 0.0


def test_who_joins_again_is_in_one_run_after_the_other_until_the_job_is_over(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan], tmp_path: Path
) -> None:
    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [GONE, INTERRUPTED]))
    again = [
        "host",
        "--join",
        "127.0.0.1:7070",
        "--rejoin",
        "--folder",
        str(tmp_path / "job-1"),
    ]

    assert exit_code(monkeypatch, *again) == 0

    folders = [plan.folder.name for plan in plans if plan.folder is not None]
    assert folders == ["job-1", "job-1-2", "job-1-3"]
    assert all(plan.reached_within_s > 0.0 for plan in plans)
    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [GONE, Interrupted("stop")]))
    assert exit_code(monkeypatch, *again[:4]) == PREEMPTED_EXIT_CODE
    assert plans[-1].folder is None


def test_by_a_folder_it_joins_again_where_that_says_then_for_as_long_as_at_first(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan], tmp_path: Path
) -> None:
    """Each run has a secret and an address of its own."""
    job, clock = JobDir(tmp_path), ManualClock()

    def begin(port: int) -> None:
        write_secret(job.secret, Secret.fresh())
        job.write_run(RUN)
        job.write_door(f"127.0.0.1:{port}")

    def wait_host(plan: HostPlan, *_: object) -> JobOver:
        plans.append(plan)
        clock.advance(50.0)
        if len(plans) % 2:
            raise INTERRUPTED
        begin(7070 + len(plans))
        if len(plans) == 4:
            job.write_end(None, {"status": "finished", "ending": "trained"})
        raise AnotherSecret("expects proof of the run's secret")

    begin(7070)
    monkeypatch.setattr(host_command, "SystemClock", lambda: clock)
    monkeypatch.setattr(host_command, "wait_host", wait_host)
    again = ["host", "--join", str(tmp_path), "--rejoin", "--join-within", "60s"]

    assert exit_code(monkeypatch, *again, "--folder", str(tmp_path / "own")) == 0

    assert [plan.launcher.port for plan in plans] == [7070, 7070, 7072, 7072]
    assert len({plan.secret.text() for plan in plans}) == 2
    folders = [plan.folder.name for plan in plans if plan.folder is not None]
    assert folders == ["own", "own-2", "own-2", "own-3"]


def test_a_secret_in_a_folder_may_be_that_of_a_run_that_was_killed(
    monkeypatch: pytest.MonkeyPatch, plans: list[HostPlan], tmp_path: Path
) -> None:
    job, refused = JobDir(tmp_path), AnotherSecret("expects proof of the run's secret")
    write_secret(job.secret, Secret.fresh())
    job.write_run(RUN)
    job.write_door("127.0.0.1:7070")
    join = ["host", "--join", str(tmp_path), "--join-within"]

    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [refused]))
    assert exit_code(monkeypatch, *join, "60s") == 0
    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [refused]))
    assert exit_code(monkeypatch, *join, "0s") == 2
    monkeypatch.setattr(host_command, "wait_host", Runs(plans, [GONE]))
    assert exit_code(monkeypatch, *join, "60s") == 1


class Runs:
    """Runs that a host is in: each ends as is said, and then the job is over."""

    def __init__(self, plans: list[HostPlan], ends: list[BaseException]) -> None:
        self.plans, self.ends = plans, ends

    def __call__(self, plan: HostPlan, *_: object) -> JobOver:
        self.plans.append(plan)
        if self.ends:
            raise self.ends.pop(0)
        return JobOver("the job is over", 0)
