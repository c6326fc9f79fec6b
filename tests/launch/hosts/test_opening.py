"""How machines are let in is said as it was typed, for the run that goes on."""

import io
import socket
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import JobFailed, UsageError
from paceline.launch.engines import SshEngine
from paceline.launch.hosts import Capacity, Listening
from paceline.launch.job import JobDir, UserScript
from paceline.launch.local import LocalRun, Reach, wait_local_run
from paceline.timing import SystemClock
from paceline.transport.address import TcpListening
from paceline.watch.progress import open_show

HERE = TcpListening("10.0.0.1", "10.0.0.1", 7070, 7070)


@pytest.mark.parametrize(
    ("listening", "typed"),
    [
        (Listening(HERE), "--listen 10.0.0.1:7070"),
        (Listening(HERE, hosts=3), "--listen 10.0.0.1:7070 --await-hosts 3"),
        (
            Listening(HERE, capacity=Capacity(trainers=4), trainers_per_host=4),
            "--listen 10.0.0.1:7070 --trainers-per-host 4",
        ),
        (
            Listening(TcpListening("door", "::", 7, 7), is_plain=True, ports=(7100, 7199)),
            "--listen [::]:7 --advertise door --ports 7100-7199 --plain",
        ),
        (
            Listening(
                TcpListening("10.0.0.1", "10.0.0.1"),
                engine=SshEngine(("a", "me@b"), ("ssh", "-p", "22"), "cd x"),
                capacity=Capacity(servers=0, trainers=0),
            ),
            "--hosts a,me@b --ssh ssh -p 22 --remote cd x --coordinator-only",
        ),
    ],
)
def test_it_is_said_in_options(listening: Listening, typed: str) -> None:
    assert " ".join(listening.options()) == typed


@pytest.mark.parametrize(("is_plain", "more"), [(False, ""), (True, " --plain")])
def test_a_machine_is_asked_to_join_as_the_run_takes_it(is_plain: bool, more: str) -> None:
    listening = Listening(HERE, is_plain=is_plain)
    assert listening.invitation("10.0.0.1:7070") == (
        f"paceline host --join 10.0.0.1:7070{more}"
    )


def test_who_finds_a_killed_launcher_is_told_how_machines_are_let_in_again(
    tmp_path: Path,
) -> None:
    job, told = JobDir(tmp_path / "job"), []
    (script := tmp_path / "train.py").write_text("")

    class Forks:
        def start(self, *_: object) -> None:
            told.append(job.resume_command())
            raise JobFailed("seen enough")

    here = Listening(TcpListening("127.0.0.1", "127.0.0.1"), hosts=1, is_plain=True)
    config = JobConfig(run="r", checkpoints=str(tmp_path / "cuts"))
    wait_local_run(
        LocalRun(config, UserScript(str(script), ()), job),
        open_show(io.StringIO()),
        SystemClock(),
        forks=Forks(),  # type: ignore[arg-type]  # a stand-in
        reach=Reach(listening=here),
    )
    options = " ".join(here.options())
    assert "--listen 127.0.0.1:" in options
    assert told == [f"paceline run --resume --job-dir {job.path} {options} {script}"]


def test_a_port_that_somebody_has_is_refused_before_the_checkpoints_are_claimed(
    tmp_path: Path,
) -> None:
    place = tmp_path / "cuts"
    config = JobConfig(run="r", checkpoints=str(place))
    run = LocalRun(config, UserScript("train.py", ()), JobDir(tmp_path / "job"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = Listening(TcpListening("127.0.0.1", "127.0.0.1", port, port))
        show = open_show(io.StringIO())
        with pytest.raises(UsageError, match=str(port)):
            wait_local_run(run, show, SystemClock(), reach=Reach(listening=taken))

    assert not place.exists()
    assert not (tmp_path / "job").exists()
