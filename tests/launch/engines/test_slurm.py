"""An allocation of SLURM as an engine: its machines, its step, its address."""

import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import JobFailed, UsageError
from paceline.launch.engines import slurm_engine
from paceline.launch.engines.slurm import (
    MOST_HOSTS,
    SlurmEngine,
    address_in_allocation,
    expand_hosts,
    gone_in,
)
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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3],gpu-a[07-09]", ["n1", "n2", "n3", "gpu-a07", "gpu-a08", "gpu-a09"]),
        ("n[1,3-4,9]", ["n1", "n3", "n4", "n9"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
        ("a,b.example,c", ["a", "b.example", "c"]),
    ],
)
def test_a_list_of_machines_is_read_as_slurm_writes_it(text: str, names: list[str]) -> None:
    assert expand_hosts(text) == names


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,,b", "a,", "n[", "n]", "n[1", "n[]", "n[1-]", "n[2-1]", "n[a-b]", "[[1]]"],
)
def test_what_is_no_list_of_machines_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected a list of machines such as n\[1-3\]"):
        expand_hosts(text)


@pytest.mark.parametrize("text", ["n[0-99999999]", "n[1-999]x[1-999]"])
def test_a_list_that_stands_for_too_many_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        expand_hosts(text)
    assert len(expand_hosts(f"n[1-{MOST_HOSTS}]")) == MOST_HOSTS


SPANS = st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(1, 4))
WORDS = st.text("abz.-_", min_size=1, max_size=4)


@given(st.lists(st.tuples(WORDS, st.lists(SPANS, min_size=1, max_size=3)), min_size=1))
def test_any_list_stands_for_each_name_that_it_was_made_of(
    groups: list[tuple[str, list[tuple[int, int, int]]]],
) -> None:
    texts, names = [], []
    for word, spans in groups:
        parts = [f"{first:0{w}d}-{first + more:0{w}d}" for first, more, w in spans]
        texts.append(f"{word}[{','.join(parts)}]")
        for first, more, width in spans:
            numbers = range(first, first + more + 1)
            names += [word + f"{n:0{width}d}" for n, _ in product(numbers, [0])]

    assert expand_hosts(",".join(texts)) == names


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
NO_PYTHON = """\
1: slurmstepd-n3: error: execve(): /opt/bin/python: No such file or directory
0: slurmstepd-n2: error: execve(): /opt/bin/python: No such file or directory
srun: error: n[2-3]: tasks 0-1: Exited with exit code 2
"""


def test_a_machine_that_has_ended_is_known_with_its_own_last_words() -> None:
    words = "paceline: error: paceline 0.2 is installed here, and 0.1 at the launcher"
    assert gone_in(LOG) == {"n3": f"Exited with exit code 2: {words}"}
    why = "error: execve(): /opt/bin/python: No such file or directory"
    assert gone_in(NO_PYTHON) == {
        name: f"Exited with exit code 2: slurmstepd-{name}: {why}" for name in ("n2", "n3")
    }
    assert gone_in("srun: error: n9: task 7: Killed") == {"n9": "Killed"}


@pytest.mark.parametrize(
    "line",
    [
        "1: paceline: the job is over",
        "srun: error: n3: task 1: Exited with exit code 75",  # it was told to leave
        "srun: error: n[3: task 1: Killed",
    ],
)
def test_who_is_not_known_to_have_failed_is_not_gone(line: str) -> None:
    assert gone_in(line) == {}


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
