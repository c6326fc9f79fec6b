"""Hosts that the launcher starts by ssh take part, and go with it, however it goes."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.system.hosts import COUNTING, PACELINE, HostedJob, within
from tests.system.secure_shell import NO_SSHD, as_here, has_sshd, sshd, stand_in

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
REAL = [pytest.mark.soak, pytest.mark.skipif(not has_sshd(), reason=NO_SSHD)]
LONG = ("--records", "48000", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")
THREE = ("--trainers", "3", "--servers", "3", "--timeout", "3s")


@pytest.fixture(params=["stand-in", pytest.param("sshd", marks=REAL)])
def ssh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The ``--ssh`` under which a and b lead here."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    if request.param == "stand-in":
        yield stand_in(folder)
        return
    with sshd(folder) as program:
        yield program


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[HostedJob]]:
    begun: list[HostedJob] = []
    yield begun
    for job in begun:
        job.close()
    for process in of_job(tmp_path):
        process.kill()


def by_ssh(folder: Path, ssh: str, hosts: str = "a,b") -> tuple[str, ...]:
    return ("--hosts", hosts, "--ssh", ssh, "--remote", as_here(folder))


def of_job(folder: Path) -> list[psutil.Process]:
    """All that runs in a job's folder, or names it, and ends with it."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            is_of_it = process.cwd().startswith(str(folder)) or str(folder) in words
        except psutil.Error:
            continue
        if is_of_it and "sshd" not in words.split("/")[-1].split(" ")[0]:
            found.append(process)
    return found


def test_two_hosts_by_ssh_count_exactly_and_leave_nothing(
    ssh: str, tmp_path: Path, jobs: list[HostedJob]
) -> None:
    small = ("--records", "1600", "--epochs", "1")
    job = HostedJob(tmp_path, *THREE, ssh=by_ssh(tmp_path, ssh), script=small)
    jobs.append(job)

    assert job.end()["exact"]
    for host in ("a", "b"):
        said = job.job.log(f"{host}.ssh").read_text()
        assert "paceline: joined as host-" in said
        assert said.endswith("paceline: the job is over\n")
        assert job.job.secret.name not in said
    there = [log.stem for log in tmp_path.glob("runs/*-host-*/logs/*-[0-9].log")]
    assert len(list(tmp_path.glob("runs/*-host-*"))) == 2
    assert sum(role.startswith("server-") for role in there) == 2
    assert "ssh to" not in job.said()
    within(2.0, "nothing is left", lambda: len(of_job(tmp_path / "runs")) == 0)


@pytest.mark.soak
def test_a_launcher_that_is_killed_takes_its_hosts_with_it(
    ssh: str, tmp_path: Path, jobs: list[HostedJob]
) -> None:
    job = HostedJob(tmp_path, *THREE, ssh=by_ssh(tmp_path, ssh), script=LONG)
    jobs.append(job)
    within(60.0, "a few records count", lambda: job.records() > 200)
    assert len(list(tmp_path.glob("runs/*-host-*/logs/server-*.log"))) == 2

    job.launcher.kill()

    within(10.0, "nothing of it is left", lambda: not of_job(tmp_path))
    assert job.job.log("a.ssh").read_text().endswith("the job goes on without it\n")


@pytest.mark.soak
def test_a_host_whose_ssh_is_killed_is_lost_to_the_job(
    ssh: str, tmp_path: Path, jobs: list[HostedJob]
) -> None:
    job = HostedJob(tmp_path, *THREE, ssh=by_ssh(tmp_path, ssh), script=LONG)
    jobs.append(job)
    within(60.0, "a few records count", lambda: job.records() > 200)
    children = psutil.Process(job.launcher.pid).children()
    [child] = [one for one in children if "--name b" in " ".join(one.cmdline())]

    child.send_signal(signal.SIGKILL)

    within(10.0, "it is told", lambda: "ssh to b has ended with signal SIG" in job.said())
    assert "a host that is gone is not started again" in job.said()
    within(30.0, "the host is lost", lambda: "(b, tcp:127.0.0.1:" in job.said())
    assert job.launcher.poll() is None


def test_a_host_that_has_not_joined_ends_with_its_stdin_too(tmp_path: Path) -> None:
    output = tmp_path / "said.txt"
    with output.open("wb") as said:
        host = subprocess.Popen(
            [*PACELINE, "host", "--join", "127.0.0.1:9", "--end-with-stdin"],
            env={**os.environ, "PACELINE_SECRET_FILE": str(tmp_path / "none")},
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    assert host.stdin is not None
    try:
        host.stdin.write(b"ab" * 32 + b"\n")
        host.stdin.flush()
        within(30.0, "it waits", lambda: "waiting for the launcher" in output.read_text())

        host.stdin.close()

        assert host.wait(10.0) == 75
    finally:
        host.kill()
        host.wait(10.0)
    assert "was told to stop, and has not joined" in output.read_text()


@pytest.mark.parametrize("ssh", [pytest.param("sshd", marks=REAL)], indirect=True)
def test_a_host_that_refuses_the_key_fails_the_job_in_its_own_words(
    ssh: str, tmp_path: Path
) -> None:
    named = ["--job-dir", str(tmp_path / "job"), "--checkpoints", str(tmp_path / "cuts")]
    ran = subprocess.run(
        [*PACELINE, "run", *by_ssh(tmp_path, ssh, "a,stranger"), *named, str(COUNTING)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )

    assert ran.returncode == 1
    assert "ssh to stranger has ended with exit code 255" in ran.stderr
    assert "Permission denied (publickey)" in ran.stderr
    assert "-o BatchMode=yes stranger true" in ran.stderr
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert summary["status"] == "failed"
    assert not of_job(tmp_path)
