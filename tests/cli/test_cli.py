"""The command line: what it takes, what it refuses, what it prints."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import paceline
from paceline.cli import run as run_command
from paceline.config import Async, JobConfig
from paceline.errors import JobFailed
from paceline.ids import COORDINATOR
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.wiring import Wires
from paceline.launch.local import RunResult
from paceline.messages.watching import AskStatus
from paceline.timing import SystemClock
from paceline.transport.service import Peer, Reply
from tests.cli.running import STATUS, Runs, exit_code


def test_options_reach_the_job_and_the_rest_belongs_to_the_script(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path, tmp_path: Path
) -> None:
    options = ["--trainers", 3, "--servers", 2, "--pace", "async:push=4", "--seed", 7]
    more = ["--timeout", "500ms", "--checkpoint-every", "2m", "--job-dir", tmp_path / "j"]
    rest = ["--trainers", "9", "data", "--json", "-x"]

    assert exit_code(monkeypatch, "run", *options, *more, script, *rest) == 0

    expected = JobConfig(
        run=runs.config.run,
        trainers=3,
        servers=2,
        pace=Async(push_every=4),
        seed=7,
        timeout_s=0.5,
        cut_every_s=120.0,
    )
    assert runs.config == expected
    assert runs.script == UserScript(str(script), tuple(rest))
    assert runs.job.path == tmp_path / "j"
    assert not runs.is_resumed


def test_an_elastic_job_has_the_fewest_and_the_most_trainers(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path, tmp_path: Path
) -> None:
    options = ["--trainers", "2:6", "--job-dir", tmp_path / "j"]
    assert exit_code(monkeypatch, "run", *options, script) == 0
    assert (runs.config.trainers, runs.config.max_trainers) == (2, 6)


def test_a_resumed_job_is_as_it_was_where_options_are_silent(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path, tmp_path: Path
) -> None:
    last = JobConfig(run="last", trainers=2, servers=2, seed=7, cut_every_s=5.0)
    JobDir(tmp_path).claim(last, "train.py")
    options = ["--resume", "--job-dir", tmp_path, "--servers", 3]

    assert exit_code(monkeypatch, "run", *options, script) == 0

    assert runs.is_resumed
    assert runs.config.run != "last"
    assert runs.config == msgspec.structs.replace(last, run=runs.config.run, servers=3)


def test_only_the_run_that_says_so_may_begin_anew(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path, tmp_path: Path
) -> None:
    JobDir(tmp_path).claim(JobConfig(run="last", begins_anew=True), "train.py")
    for words in ([], ["--begin-anew"]):
        options = ["--resume", *words, "--job-dir", tmp_path]
        assert exit_code(monkeypatch, "run", *options, script) == 0
        assert runs.config.begins_anew == bool(words)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--begin-anew", "--job-dir", "new"], "--begin-anew belongs to --resume"),
        (["--resume"], "name its folder with --job-dir"),
        (["--resume", "--job-dir", "nowhere"], "holds no job"),
        (["--resume", "--job-dir", "job", "--seed", 8], "the job began with seed 7"),
        (["--resume", "--job-dir", "job", "--pace", "async"], "the job began with sync"),
        (["--resume", "--job-dir", "job", "--checkpoints", "a"], "lie in its folder"),
        (["--resume", "--job-dir", "with plugin"], "add --plugin 'their own/rules.py'"),
    ],
)
def test_what_cannot_be_resumed_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[object],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    JobDir(tmp_path / "job").claim(JobConfig(run="last", seed=7), "train.py")
    theirs = JobConfig(run="last", plugins=("their own/rules.py",))
    JobDir(tmp_path / "with plugin").claim(theirs, "train.py")

    assert exit_code(monkeypatch, "run", *options, script) == 2

    assert reason in " ".join(capsys.readouterr().err.split())
    assert not runs.is_resumed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--trainerz", "2", "SCRIPT"], "No such option"),
        (["run"], "Missing argument"),
        (["ride", "SCRIPT"], "No such command"),
        (["run", "missing.py"], "there is no script 'missing.py'"),
        (
            ["run", "--pace", "warp", "SCRIPT"],
            "'warp' is not one of sync, ssp, local",
        ),
        (["run", "--trainers", "0", "SCRIPT"], "trainers must be >= 1, got 0"),
        (["run", "--trainers", "many", "SCRIPT"], "expected a number, or two like 2:6"),
        (["run", "--trainers", "6:2", "SCRIPT"], "the fewest, then the most, got 6:2"),
        (["run", "--servers", "0", "SCRIPT"], "servers must be >= 1, got 0"),
        (["run", "--servers", "two", "SCRIPT"], "--servers"),
        (["run", "--seed", str(2**70), "SCRIPT"], "seed must be within 64 bits"),
        (["run", "--checkpoint-every", "-1s", "SCRIPT"], "expected a duration like 60s"),
        (["run", "--timeout", "soon", "SCRIPT"], "expected a duration like 60s"),
        (["run", "--timeout", "0", "SCRIPT"], "timeout must be > 0"),
        (["run", "--disk-wait", "long", "SCRIPT"], "--disk-wait: expected a duration"),
        (["scale", "many"], "expected a number of trainers"),
        (["status", "nowhere"], "holds no job"),
        (["draw", "nowhere"], "there is no job folder nowhere"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: Path,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(script.parent)
    named = [str(script) if word == "SCRIPT" else word for word in arguments]

    assert exit_code(monkeypatch, *named) == 2

    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err


def test_the_program_says_which_version_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"paceline {paceline.__version__}\n"


def test_a_folder_of_another_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    (script.parent / "journal.sqlite").touch()

    assert exit_code(monkeypatch, "run", "--job-dir", script.parent, script) == 2
    assert "already holds a job" in capsys.readouterr().err


def test_a_job_that_fails_on_the_way_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    def fail(*_: object, **__: object) -> RunResult:
        raise JobFailed("no more processes")

    monkeypatch.setattr(run_command, "wait_local_run", fail)

    assert exit_code(monkeypatch, "run", "--job-dir", script.parent, script) == 1
    assert "JobFailed: no more processes" in capsys.readouterr().err


class StandInCoordinator:
    def received(
        self, peer: Peer, message: AskStatus, buffers: list[object], reply: Reply
    ) -> None:
        assert (peer.role, message, buffers) == ("observer", AskStatus(), [])
        reply(STATUS)

    def disconnected(self, peer: Peer) -> None:
        pass


EXPECTED_VIEW = {
    "state": "running",
    "queue": {"todo": 3, "pending": 2, "done": 1, "failed": 0, "epoch": 1},
    "epoch": 2,
    "kind": "train",
    "pace": "async",
    "changing": None,
    "trouble": None,
    "no_room": None,
    "processes": [
        {
            "role": "trainer",
            "id": "trainer-0",
            "incarnation": 4,
            "pid": 77,
            "host": "here",
            "address": "",
            "state": "working",
            "clock": 9,
            "records": 512,
            "wait": None,
            "spent": None,
            "load": [],
            "counters": {},
        }
    ],
    "counters": {"duplicates": 2},
    "summary": None,
}


def test_the_status_of_a_running_job_comes_from_its_coordinator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    address = "inproc:test-status"
    JobDir(tmp_path).write_run(RunFile("r1", address, str(tmp_path), 1))
    wires = Wires("r1", COORDINATOR, SystemClock())
    with wires.listen_as_coordinator(address, StandInCoordinator()):
        assert exit_code(monkeypatch, "status", "--json", tmp_path) == 0
        assert json.loads(capsys.readouterr().out) == EXPECTED_VIEW

        assert exit_code(monkeypatch, "status", tmp_path) == 0
        assert "trainer-0" in capsys.readouterr().out


def test_the_status_of_an_ended_job_comes_from_its_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    summary = {"status": "finished"}
    JobDir(tmp_path).write_end(STATUS, summary)

    assert exit_code(monkeypatch, "status", "--json", tmp_path) == 0

    expected = {**EXPECTED_VIEW, "state": "finished", "processes": [], "summary": summary}
    assert json.loads(capsys.readouterr().out) == expected


def test_the_status_of_a_job_whose_launcher_was_killed_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    JobDir(tmp_path).write_run(RunFile("r1", f"unix:{gone}/c.sock", str(gone), 42))

    assert exit_code(monkeypatch, "status", "--json", tmp_path) == 2
    assert "its launcher (process 42) went without a summary" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.system
def test_the_command_line_does_not_import_torch() -> None:
    program = (
        "import sys, paceline.cli.main, paceline.launch.local\n"
        "import paceline.coordinator.service\n"
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
