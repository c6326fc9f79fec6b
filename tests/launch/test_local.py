"""A run that never gets a process still ends as a run: summary, no sockets, an answer."""

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.config import Async, JobConfig
from paceline.errors import JobFailed, UsageError
from paceline.launch import local
from paceline.launch.job import sockets as sockets_of_jobs
from paceline.launch.job.addresses import Transport
from paceline.launch.job.commands import Command, UserScript
from paceline.launch.job.environment import read_place
from paceline.launch.job.files import read_secret
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, RunResult, describe_run, wait_local_run
from paceline.launch.processes.process import Child
from paceline.launch.supervise.launcher import Ended, Launcher
from paceline.launch.supervise.supervision import Supervision
from paceline.timing import SystemClock
from paceline.transport.shared_memory import SHARED_MEMORY
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending, Verdict


class StandInForks:
    """A fork server that forks nothing."""

    def __init__(self, start: Callable[[], None]) -> None:
        self.on_start = start

    def start(self, role: str, command: Command, log: Path) -> Child | None:
        del role, command, log
        self.on_start()
        return None

    def close(self) -> None:
        raise AssertionError("it outlives the job")


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sockets"

    def make() -> Path:
        path.mkdir()
        return path

    monkeypatch.setattr(sockets_of_jobs, "make_sockets", make)
    return path


def run(
    job: JobDir,
    start: Callable[[], None],
    forks: type[StandInForks] = StandInForks,
    transport: Transport = "unix",
    output: io.StringIO | None = None,
) -> RunResult:
    return wait_local_run(
        LocalRun(JobConfig(run="r1"), UserScript("train.py", ()), job),
        open_show(output or io.StringIO()),
        SystemClock(),
        forks=forks(start),  # type: ignore[arg-type]  # a stand-in
        reach=Reach(transport),
    )


def test_a_process_that_cannot_be_started_fails_the_job_with_a_summary(
    tmp_path: Path, sockets: Path
) -> None:
    def refuse() -> None:
        raise JobFailed("what all processes need cannot be imported")

    job = JobDir(tmp_path / "job")
    result = run(job, refuse)

    assert result.verdict.ending is Ending.FAILED
    assert result.verdict.reason == "what all processes need cannot be imported"
    assert json.loads(job.summary.read_text())["status"] == "failed"
    assert job.read_run() is None
    assert not sockets.exists()


def test_over_tcp_processes_get_address_and_secret_by_environment_and_the_folder_keeps_none(
    tmp_path: Path, sockets: Path
) -> None:
    commands: list[Command] = []
    modes: list[int] = []
    job = JobDir(tmp_path / "job")

    class Recording(StandInForks):
        def start(self, role: str, command: Command, log: Path) -> Child | None:
            commands.append(command)
            modes.append(job.secret.stat().st_mode & 0o777)
            if role.startswith("trainer"):
                raise JobFailed("seen enough")
            return super().start(role, command, log)

    result = run(job, lambda: None, Recording, transport="tcp")

    assert result.verdict.reason == "seen enough"
    places = [read_place(command.environment) for command in commands]
    assert len({place.coordinator for place in places if place}) == 1
    addresses = [place.address for place in places if place]
    assert [address[:14] for address in addresses] == ["tcp:127.0.0.1:"] * 3
    assert addresses[2] == "tcp:127.0.0.1:0"  # a trainer's, if it ever listens
    [secret] = {place.secret for place in places if place}
    assert secret is not None
    assert set(modes) == {0o600}
    for command in commands:
        assert command.environment["PACELINE_COORDINATOR"].startswith("tcp:127.0.0.1:")
        assert not {"tcp:", secret.text()} & set(command.script)
    assert not job.secret.exists()
    assert not sockets.exists()
    for path in job.path.rglob("*"):
        assert not path.is_file() or secret.text().encode() not in path.read_bytes()


def test_two_runs_have_two_secrets(tmp_path: Path, sockets: Path) -> None:
    secrets = []
    for name in ("one", "two"):
        job = JobDir(tmp_path / name)

        def look(job: JobDir = job) -> None:
            secrets.append(read_secret(job.secret))
            raise JobFailed("seen enough")

        run(job, look, transport="tcp")
    assert not sockets.exists()
    assert None not in secrets
    assert len(set(secrets)) == 2


def test_ctrl_c_before_anything_runs_still_leaves_a_summary(
    tmp_path: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = sockets_of_jobs.make_sockets

    def make_interrupted() -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        return make()

    monkeypatch.setattr(sockets_of_jobs, "make_sockets", make_interrupted)
    job = JobDir(tmp_path / "job")
    result = run(job, lambda: None)

    assert result.verdict.ending is Ending.INTERRUPTED
    assert json.loads(job.summary.read_text())["status"] == "stopped"
    assert result.said == (
        f"go on with: paceline run --resume --job-dir {job.path} train.py",
    )
    assert not sockets.exists()


def test_scripts_that_failed_on_the_way_are_told_at_the_end(
    tmp_path: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_failure(*given: Any) -> Supervision:  # Any: as they come
        supervision = Supervision(*given)
        supervision.failures.note("trainer-1", None, "exit code 3", since_s=0.0, now=1.0)
        return supervision

    def refuse() -> None:
        raise JobFailed("seen enough")

    monkeypatch.setattr(local, "Supervision", with_failure)
    job = JobDir(tmp_path / "job")
    log = job.log("trainer-1")
    assert run(job, refuse).said == (
        f"trainer-1 failed on the way, once: exit code 3; {log} tells more",
    )
    assert not sockets.exists()


def test_who_ended_the_job_is_told_whole_and_not_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_failures(*given: Any) -> Supervision:  # Any: as they come
        supervision = Supervision(*given)
        for role in ("trainer-0", "trainer-1"):
            supervision.failures.note(role, None, "exit code 3", since_s=0.0, now=1.0)
        return supervision

    def wait_ended(launcher: Launcher, _: object) -> Ended:
        return launcher.ended(Verdict(Ending.FAILED, "trainer-0 died", role="trainer-0"))

    monkeypatch.setattr(local, "Supervision", with_failures)
    monkeypatch.setattr(Launcher, "wait_ended", wait_ended)
    job = JobDir(tmp_path / "job")
    [said] = run(job, lambda: None).said
    assert said.startswith("trainer-1 failed on the way, once: ")


def test_a_run_is_described_in_a_line() -> None:
    job = JobDir(Path("/here/runs/one"))
    script = UserScript("train.py", ())
    plain = LocalRun(JobConfig(run="r1"), script, job)
    assert describe_run(plain, Path("/here")) == (
        "job folder runs/one, 1 trainer, 1 server, sync"
    )
    config = JobConfig(
        run="r1",
        trainers=2,
        most_trainers=6,
        ranks_per_trainer=4,
        servers=3,
        pace=Async(push_every=4),
        checkpoints="s3://theirs/cuts",
    )
    large = LocalRun(
        config, script, job, is_resumed=True
    )  # at a pace that is not known yet
    assert describe_run(large, Path("/elsewhere")) == (
        "job folder /here/runs/one, resumed, 2 to 6 trainers of 4 processes, 3 servers, "
        "checkpoints in s3://theirs/cuts"
    )


def test_the_first_line_comes_before_any_process_is_asked_for(
    tmp_path: Path, sockets: Path
) -> None:
    shown = io.StringIO()
    said: list[str] = []

    def look() -> None:
        said.append(shown.getvalue())
        raise JobFailed("seen enough")

    run(JobDir(tmp_path / "job"), look, output=shown)

    assert said[0].startswith(f"paceline: job folder {tmp_path / 'job'}, 1 trainer")
    assert not sockets.exists()


def test_an_environment_that_cannot_be_read_is_refused_before_the_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, SHARED_MEMORY, "never")
    job = JobDir(tmp_path / "job")
    with pytest.raises(UsageError, match=SHARED_MEMORY):
        run(job, lambda: None)
    assert not job.path.exists()


def test_the_jobs_own_fork_server_is_closed_and_the_sockets_removed_after_any_error(
    tmp_path: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Broken(StandInForks):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(self.fail)

        def fail(self) -> None:
            raise RuntimeError("a bug")

        def close(self) -> None:
            closed.append(sockets.exists())

    monkeypatch.setattr(local, "ForkServer", Broken)
    with pytest.raises(RuntimeError, match="a bug"):
        wait_local_run(
            LocalRun(
                JobConfig(run="r1"), UserScript("train.py", ()), JobDir(tmp_path / "job")
            ),
            open_show(io.StringIO()),
            SystemClock(),
        )

    assert closed == [True]
    assert not sockets.exists()
