"""What a role's process does beside its service."""

import os
import resource
import subprocess
from contextlib import ExitStack
from pathlib import Path

from paceline.launch.job.environment import Place
from paceline.launch.processes import role
from paceline.launch.processes.parent import is_gone


def place(sockets: Path, launcher: int) -> Place:
    return Place("r1", "coordinator", Path("/job"), "unix:/c.sock", sockets, launcher)


def test_a_process_is_gone_when_it_has_ended_reaped_or_not() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(ended.pid)
    ended.wait()
    assert is_gone(ended.pid)
    assert not is_gone(os.getpid())


def test_its_end_is_seen_by_a_process_with_very_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert not is_gone(os.getpid())


def test_a_coordinator_removes_the_sockets_only_of_a_dead_launcher(tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    (sockets / "server-0.sock").touch()
    with subprocess.Popen(["true"]) as launcher:
        pass

    role._remove_sockets_of_the_dead(place(sockets, os.getpid()))
    assert sockets.is_dir()
    role._remove_sockets_of_the_dead(place(sockets, launcher.pid))
    assert not sockets.exists()
