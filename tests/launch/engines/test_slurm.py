"""An allocation of SLURM as an engine: its machines, its step, its address."""

import sys
from pathlib import Path

import pytest

from paceline.errors import JobFailed, UsageError
from paceline.launch.engines import slurm_engine
from paceline.launch.engines.slurm import SlurmEngine, address_in_allocation
from paceline.launch.job import Candidate, JobDir
from paceline.launch.supervise.supervision import LEAVE_S, SAVE_S
from paceline.transport.address import TcpListening
from tests.launch.engines.test_ssh import SECRET, brought
from tests.system.hosts import within

ALLOCATION = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURMD_NODENAME": "n2",
}
LOOPBACK = Candidate("lo", "127.0.0.1")
ETH, V6 = Candidate("eth0", "10.0.0.1"), Candidate("eth0", "fd00::1")
IB = Candidate("ib0", "10.9.0.1")


def test_an_allocation_has_the_machines_that_are_not_the_launchers() -> None:
    engine = slurm_engine(ALLOCATION)

    assert engine == SlurmEngine("17", ("n1", "n3"))
    assert engine.num_machines(None) == 2
    assert engine.options() == ["--engine", "slurm"]
    assert slurm_engine({**ALLOCATION, "SLURM_JOB_NODELIST": "n2"}).others == ()


def test_outside_of_a_job_of_slurms_it_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="SLURM_JOB_ID and SLURM_JOB_NODELIST are not set"):
        slurm_engine({})


def test_who_is_on_no_machine_of_the_job_does_not_lead_it() -> None:
    """As the shell of salloc on a login machine, which others may not reach."""
    with pytest.raises(UsageError, match=r"is none of job 17, which has n\[1-3\]"):
        slurm_engine({**ALLOCATION, "SLURMD_NODENAME": "login"})


def test_one_step_brings_all_and_no_command_line_has_the_secret() -> None:
    command = SlurmEngine("17", ("n1", "n3")).command("10.0.0.1:7070", ("--plain",))

    step, host = command[: command.index(sys.executable)], command[command.index("host") :]
    assert step[:4] == ["srun", "--nodes=2", "--ntasks=2", "--nodelist=n1,n3"]
    kept = {"--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--export=ALL", "--input=all"}
    assert kept <= set(step)
    assert host == [
        *("host", "--join", "10.0.0.1:7070", "--plain", "--stay", "90s"),
        *("--join-within", "60s", "--end-with-stdin"),
    ]


def test_hosts_stay_for_as_long_as_trainers_and_a_last_checkpoint_may_take() -> None:
    command = SlurmEngine("17", ("n1",)).command("10.0.0.1:7070")

    stay = command[command.index("--stay") + 1]
    assert float(stay.removesuffix("s")) > LEAVE_S + SAVE_S


@pytest.mark.parametrize(
    ("here", "used", "host"),
    [
        ([LOOPBACK, ETH, V6], "", "10.0.0.1"),
        ([LOOPBACK, V6], "", "fd00::1"),
        ([ETH, IB], "10.9.0.1", "10.9.0.1"),
        ([ETH], "10.0.0.7", "10.0.0.1"),
    ],
)
def test_a_launcher_listens_at_its_only_address_or_at_slurms(
    here: list[Candidate], used: str, host: str
) -> None:
    found = address_in_allocation(used, here, (7100, 7199))

    assert found == TcpListening(host, host, 7100, 7199)


@pytest.mark.parametrize(
    ("here", "told"),
    [
        ([ETH, IB], "found eth0 10.0.0.1, ib0 10.9.0.1: "),
        ([LOOPBACK], "found none but loopback: "),
    ],
)
def test_which_address_is_not_guessed(here: list[Candidate], told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        address_in_allocation("", here, (0, 0))
    assert "--network" in str(refused.value)


@pytest.fixture
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that is called srun: a shell's words are put there."""
    path = tmp_path / "bin" / "srun"
    path.parent.mkdir()
    path.touch(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    monkeypatch.setattr("paceline.launch.engines.children.LEAVE_S", 0.1)
    return path


def test_the_secret_comes_by_the_steps_stdin_alone(srun: Path, tmp_path: Path) -> None:
    words = """echo "$*"; env; read secret; echo "read: $secret"; read more"""
    srun.write_text(f"#!/bin/sh\n{words}\n")
    job = JobDir(tmp_path)
    job.logs.mkdir()
    hosts = SlurmEngine("17", ("n1", "n3")).bring(brought(job, 3))
    try:
        hosts.start("10.0.0.1:7070")
        log = job.log("srun")
        within(10.0, "it is read", lambda: "read: " in log.read_text())
    finally:
        hosts.close()

    before, _, read = log.read_text().partition("read: ")
    assert read.strip() == SECRET.text()
    assert "--nodelist=n1,n3" in before
    assert SECRET.text() not in before


def test_a_step_that_cannot_begin_fails_the_job_in_the_words_of_srun(
    srun: Path, tmp_path: Path
) -> None:
    words = "srun: error: Unable to create step for job 17"
    srun.write_text(f"#!/bin/sh\necho {words}; exit 1\n")
    job, said = JobDir(tmp_path), list[str]()
    job.logs.mkdir()
    hosts = SlurmEngine("17", ("n1", "n3")).bring(brought(job, 3, said.append))
    try:
        hosts.start("10.0.0.1:7070")
        within(10.0, "it is told", lambda: len(said) > 1)
        with pytest.raises(JobFailed, match="srun for n1, n3 has ended") as failed:
            hosts.check()
    finally:
        hosts.close()

    assert str(failed.value).endswith(words)
    assert "scontrol show job 17" in str(failed.value)


LOG = """\
0: paceline: joined as host-1: run 5, started with train.py
1: paceline: error: paceline 0.2 is installed here, and 0.1 at the launcher
srun: error: n3: task 1: Exited with exit code 2
"""


def test_a_machine_that_refuses_fails_a_job_that_needs_it_while_the_step_goes_on(
    srun: Path, tmp_path: Path
) -> None:
    srun.write_text(f"#!/bin/sh\ncat <<'E'\n{LOG}E\nread secret; read more\n")
    job, said = JobDir(tmp_path), list[str]()
    job.logs.mkdir()
    hosts = SlurmEngine("17", ("n2", "n3")).bring(brought(job, 3, said.append))
    try:
        hosts.start("10.0.0.1:7070")
        within(10.0, "it is told", lambda: len(said) > 1)
        with pytest.raises(JobFailed, match="n3 is gone, srun says: Exited with exit "):
            hosts.check()
    finally:
        hosts.close()

    assert [line for line in said if "is gone" in line] == [
        "n3 is gone, srun says: Exited with exit code 2: paceline: error: paceline 0.2 is "
        "installed here, and 0.1 at the launcher; a host that is gone is not started again"
    ]


def test_one_machine_starts_no_step(tmp_path: Path) -> None:
    said = list[str]()
    hosts = SlurmEngine("17", ()).bring(brought(JobDir(tmp_path), 1, said.append))
    hosts.start("10.0.0.1:7070")
    hosts.close()
    assert not said
