"""Forked processes: as good as freshly started, and gone with their launcher."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import JobFailed
from paceline.launch.job.commands import Command
from paceline.launch.processes import forkserver
from paceline.launch.processes.forkserver import IMPORT_S, ForkServer
from paceline.launch.processes.process import Child, wait_any
from paceline.timing import ManualClock, SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.system]

WAIT_S = 120.0
SLEEPER = """
import os, sys, time
with open(sys.argv[1], "w") as ready:
    ready.write(str(os.getpid()))
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    server = ForkServer(
        os.environ, tmp_path_factory.mktemp("forks") / "log", SystemClock(), ()
    )
    yield server
    server.close()


def wait_started(forks: ForkServer, command: Command, log: Path) -> Child:
    for _ in range(int(WAIT_S / 0.1)):
        child = forks.start("trainer-0", command, log)
        if child is not None:
            return child
        select.select([], [], [], 0.1)
    raise AssertionError("the fork server was never ready")


def wait_gone(pid: int) -> bool:
    pidfd = os.pidfd_open(pid)
    try:
        return bool(select.select([pidfd], [], [], WAIT_S)[0])
    finally:
        os.close(pidfd)


def wait_run(
    forks: ForkServer, tmp_path: Path, script: str, *arguments: str, **variables: str
) -> tuple[int, list[str]]:
    """Exit status and output of a script."""
    path = tmp_path / "script.py"
    path.write_text(script)
    command = Command((str(path), *arguments), {**os.environ, **variables})
    child = wait_started(forks, command, tmp_path / "log")
    assert wait_any([child], WAIT_S) == [child]
    return child.reap(), child.last_lines()


def test_freed_memory_is_kept_for_the_next_step(forks: ForkServer, tmp_path: Path) -> None:
    script = """
import resource
def step():
    pieces = [bytes(500_000) for _ in range(8)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    status, [faults] = wait_run(forks, tmp_path, script)
    assert status == 0
    assert int(faults) < 5_000, "of 48,900 pages that 50 steps touch"


def test_a_script_runs_as_python_would_run_it(forks: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "neighbor.py").write_text("NAME = 'neighbor'")
    script = (
        "import atexit, sys, neighbor\n"
        "atexit.register(print, 'bye')\n"
        "print(__name__, neighbor.NAME, sys.argv, sys.path[0])\n"
        "sys.exit(7)\n"
    )

    status, words = wait_run(forks, tmp_path, script, "--lr", "3")

    arguments = [str(tmp_path / "script.py"), "--lr", "3"]
    assert (status, words) == (7, [f"__main__ neighbor {arguments} {tmp_path}", "bye"])


def test_an_error_of_the_script_is_in_its_log(forks: ForkServer, tmp_path: Path) -> None:
    status, words = wait_run(forks, tmp_path, "raise ValueError('no such column')")

    assert (status, words[-1]) == (1, "ValueError: no such column")


@pytest.mark.parametrize("script", ["def f():\n    1 / 0\n\n\nf()\n", "x = = 1\n"])
def test_an_error_is_told_as_python_tells_it(
    forks: ForkServer, tmp_path: Path, script: str
) -> None:
    _, told = wait_run(forks, tmp_path, script)
    command = [sys.executable, tmp_path / "script.py"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert [line for line in told if line.strip()] == done.stderr.splitlines()


def test_a_process_has_its_own_environment_threads_and_random_numbers(
    tmp_path: Path,
) -> None:
    script = (
        "import os, torch, numpy\n"
        "print(os.environ['MINE'], 'HOME' in os.environ, torch.get_num_threads())\n"
        "print(numpy.random.random())\n"
    )

    forks = ForkServer(os.environ, tmp_path / "log", SystemClock(), ("torch",))
    first = wait_run(forks, tmp_path, script, MINE="a", OMP_NUM_THREADS="3")
    second = wait_run(forks, tmp_path, script, MINE="b", OMP_NUM_THREADS="1")
    forks.close()

    assert first[1][0] == f"a {'HOME' in os.environ} 3"
    assert second[1][0] == f"b {'HOME' in os.environ} 1"
    assert first[1][1] != second[1][1]


def test_a_killed_process_is_told_by_its_status(forks: ForkServer, tmp_path: Path) -> None:
    status, _ = wait_run(forks, tmp_path, "import os; os.kill(os.getpid(), 9)")

    assert status == -signal.SIGKILL


def test_what_was_forked_dies_with_a_fork_server_and_the_next_start_has_a_new_one(
    forks: ForkServer, tmp_path: Path
) -> None:
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    command = Command((str(tmp_path / "sleeper.py"), str(fifo)), dict(os.environ))
    child = wait_started(forks, command, tmp_path / "log")
    assert int(fifo.read_text()) == child.pid

    parent = int(Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)

    assert wait_any([child], WAIT_S) == [child]
    assert forks.start("trainer-1", command, tmp_path / "log") is None
    assert forks.pid != parent
    assert child.reap() == -signal.SIGKILL  # though the new one is still importing
    assert wait_run(forks, tmp_path, "print('again')") == (0, ["again"])


LAUNCHER = """
import os, sys, time
from pathlib import Path
from paceline.launch.job.commands import Command
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
log, command = Path(sys.argv[1]), Command(tuple(sys.argv[2:]), dict(os.environ))
forks = ForkServer(os.environ, log, SystemClock(), ())
while forks.start("trainer-0", command, log) is None:
    time.sleep(0.1)
time.sleep(1000)
"""


def test_a_trainer_dies_with_a_killed_launcher(tmp_path: Path) -> None:
    fifo, script = tmp_path / "ready", tmp_path / "sleeper.py"
    os.mkfifo(fifo)
    script.write_text(SLEEPER)
    command = [sys.executable, "-c", LAUNCHER, tmp_path / "log", script, fifo]
    with subprocess.Popen(command) as launcher:
        pid = int(fifo.read_text())
        launcher.kill()
        assert wait_gone(pid)


def test_what_cannot_be_imported_fails_the_job_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    forks = ForkServer(environment, tmp_path / "log", SystemClock())
    command = Command(("unused.py",), dict(os.environ))
    try:
        with pytest.raises(JobFailed, match="no torch here"):
            wait_started(forks, command, tmp_path / "log")
    finally:
        forks.close()


def test_an_import_without_an_end_fails_the_job_and_shows_the_log(tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    (tmp_path / "endless.py").write_text(
        f"import time\nprint('half way')\nopen({str(fifo)!r}, 'w').close()\n"
        "time.sleep(1000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    clock = ManualClock()
    forks = ForkServer(environment, tmp_path / "log", clock, ("endless",))
    command = Command(("unused.py",), dict(os.environ))
    fifo.read_text()
    try:
        assert forks.start("trainer-0", command, tmp_path / "log") is None
        clock.advance(IMPORT_S)
        with pytest.raises(JobFailed, match=r"not imported within 600 s(.|\n)*half way"):
            forks.start("trainer-0", command, tmp_path / "log")
    finally:
        forks.close()
    with pytest.raises(ProcessLookupError):
        os.kill(forks.pid, 0)


def test_a_fork_that_the_kernel_refuses_fails_the_job_and_spares_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "refusing.py").write_text(
        "import errno, os\nfork, left = os.fork, [1]\n"
        "def refuse():\n"
        "    if left:\n"
        "        raise BlockingIOError(errno.EAGAIN, f'no more of {left.pop()}')\n"
        "    return fork()\n"
        "os.fork = refuse\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    forks = ForkServer(environment, tmp_path / "log", SystemClock(), ("refusing",))
    first = forks.pid
    try:
        with pytest.raises(JobFailed, match=r"trainer-0 could not be forked.*no more of 1"):
            wait_run(forks, tmp_path, "print('never')")
        assert wait_run(forks, tmp_path, "print('then')") == (0, ["then"])
        assert forks.pid == first
    finally:
        forks.close()


def test_a_fork_server_that_dies_at_every_request_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "def die():\n"
        "    print('killed by a guard', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.fork = die\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    forks = ForkServer(environment, tmp_path / "forks", SystemClock(), ("deadly",))
    pids = {forks.pid}

    def start_again_and_again() -> None:
        for _ in range(int(WAIT_S / 0.1)):
            command = Command((str(tmp_path / "script.py"),), dict(os.environ))
            assert forks.start("trainer-0", command, tmp_path / "log") is None
            pids.add(forks.pid)
            select.select([], [], [], 0.1)

    with pytest.raises(JobFailed, match="died 4 times in a row") as failed:
        start_again_and_again()
    forks.close()
    assert len(pids) == 4
    assert "killed by a guard" in str(failed.value)


def test_large_environments_and_what_is_not_utf8_arrive(
    forks: ForkServer, tmp_path: Path
) -> None:
    script = (
        "import os, sys\n"
        "print(os.environb[b'MINE'], len(os.environ['LARGE']), os.fsencode(sys.argv[1]))\n"
    )
    odd = os.fsdecode(b"caf\xe9")

    ended = wait_run(forks, tmp_path, script, odd, MINE=odd, LARGE="x" * 1_000_000)

    assert ended == (0, [r"b'caf\xe9' 1000000 b'caf\xe9'"])


def test_a_process_that_is_gone_before_it_is_known_is_asked_for_again(
    forks: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Child:
        raise ProcessLookupError("it died with its fork server")

    assert wait_run(forks, tmp_path, "") == (0, [])
    (tmp_path / "unseen.py").touch()  # run by the one that nobody knows
    command = Command((str(tmp_path / "unseen.py"),), dict(os.environ))
    with monkeypatch.context() as patch:
        patch.setattr(forkserver, "Child", gone)
        assert forks.start("trainer-0", command, tmp_path / "unseen") is None
    assert wait_run(forks, tmp_path, "print('again')") == (0, ["again"])


def test_a_process_that_cannot_open_its_log_ends_with_1(
    forks: ForkServer, tmp_path: Path
) -> None:
    wait_run(forks, tmp_path, "")
    command = Command((str(tmp_path / "script.py"),), dict(os.environ))
    child = wait_started(forks, command, tmp_path / "missing" / "log")

    assert wait_any([child], WAIT_S) == [child]
    assert (child.reap(), child.last_lines()) == (1, [])


def test_a_module_runs_as_python_would_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "made_of_two"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "beside.py").write_text("word = 'found'")
    (package / "told.py").write_text(
        "import sys\n"
        "from made_of_two.beside import word\n"
        "from . import beside\n"
        "main = sys.modules['__main__']\n"
        "print(__name__, __package__, __spec__.name, sys.argv, sys.path[0], word,\n"
        "    main.__dict__ is globals())\n"
    )
    python = [sys.executable, "-m", "made_of_two.told", "--lr", "3"]
    plain = subprocess.run(
        python, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    monkeypatch.chdir(tmp_path)  # what is forked works where the launcher does
    server = ForkServer(os.environ, tmp_path / "forks", SystemClock(), ())
    try:
        command = Command(
            ("made_of_two.told", "--lr", "3"), dict(os.environ), is_module=True
        )
        child = wait_started(server, command, tmp_path / "log")
        assert wait_any([child], WAIT_S) == [child]
        assert (child.reap(), child.last_lines()) == (0, plain.splitlines())
    finally:
        server.close()
