"""The command line: what it takes, what it refuses, what it prints."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from paceline.cli import main as cli
from paceline.cli import run as run_command
from paceline.config import Async, JobConfig
from paceline.errors import JobFailed
from paceline.ids import COORDINATOR
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir, RunFile
from paceline.launch.job.wiring import Wires
from paceline.launch.local import LocalRun, RunResult
from paceline.messages import AskStatus, JobStatus, ProcessStatus, QueueStatus
from paceline.timing import SystemClock
from paceline.transport.service import Peer, Reply
from paceline.watch.summary import Ending, Restarts, Verdict, summarize
from paceline.watch.trained import RunTime

STATUS = JobStatus(
    state="running",
    queue=QueueStatus(todo=3, pending=2, done=1, failed=0, epoch=1),
    pace="async",
    processes=(
        ProcessStatus("trainer", "trainer-0", 4, 77, "here", "", "working", 9, 512),
    ),
    epochs=1,
    records=512,
    tasks_done=9,
    tasks_failed=0,
    steps=12,
    metrics={"loss": 0.25},
    total_records=0,
    timeline=0,
    cut=0,
    counters={"duplicates": 2},
)


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["paceline", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int | None)
    return code or 0


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.touch()
    return path


class Runs:
    """Stands in for the run itself, and keeps what it was asked for."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.config = JobConfig(run="none")
        self.script = UserScript("", ())
        self.job = JobDir(Path())
        self.is_resumed = False
        self.said: tuple[str, ...] = ()

    def __call__(self, run: LocalRun, *_: object) -> RunResult:
        self.config, self.script, self.job, self.is_resumed = run
        folder = str(self.job.path)
        summary = summarize(STATUS, self.verdict, Restarts(), 2.0, folder, RunTime(0.0))
        return RunResult(summary, self.verdict, self.said)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs(Verdict(Ending.TRAINED, ""))
    monkeypatch.setattr(run_command, "wait_local_run", stand_in)
    return stand_in


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


def test_json_is_the_last_line_and_has_the_summary(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert exit_code(monkeypatch, "run", "--json", "--job-dir", tmp_path, script) == 0

    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert summary["status"] == "finished"
    assert summary["records"] == 512
    assert summary["job_dir"] == str(runs.job.path)


def test_without_json_a_table_is_printed(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "run", script) == 0

    shown = capsys.readouterr().out
    assert "finished" in shown
    assert "loss" in shown
    assert runs.job.path.parent == tmp_path / "runs"
    assert runs.job.path.name.endswith("-train")


@contextlib.contextmanager
def one_stream(monkeypatch: pytest.MonkeyPatch, shown: Path) -> Iterator[None]:
    """Let both streams go into one file, each as Python has it: in blocks, and in lines."""
    with shown.open("a") as output, shown.open("a", buffering=1) as errors:
        monkeypatch.setattr("sys.stdout", output)
        monkeypatch.setattr("sys.stderr", errors)
        yield


def test_the_command_to_resume_is_the_last_line_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path
) -> None:
    runs.verdict = Verdict(Ending.INTERRUPTED, "interrupted; saved as cut 3")
    runs.said = ("go on with: paceline run --resume",)
    job, shown = script.parent / "job", script.parent / "shown"

    with one_stream(monkeypatch, shown):
        assert exit_code(monkeypatch, "run", "--job-dir", job, script) == 75

    table, ending = shown.read_text().split("paceline: ", 1)
    assert table.startswith("status      stopped ")
    assert ending.splitlines() == [
        "interrupted; saved as cut 3",
        "paceline: go on with: paceline run --resume",
    ]


def test_the_json_of_an_interrupted_run_is_the_last_line_of_both_streams(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, script: Path
) -> None:
    runs.verdict = Verdict(Ending.INTERRUPTED, "interrupted")
    runs.said = ("go on with: paceline run --resume",)
    job, shown = script.parent / "job", script.parent / "shown"

    with one_stream(monkeypatch, shown):
        assert exit_code(monkeypatch, "run", "--json", "--job-dir", job, script) == 75

    *said, line = shown.read_text().splitlines()
    assert said == ["paceline: interrupted", f"paceline: {runs.said[0]}"]
    assert json.loads(line)["ending"] == "interrupted"


@pytest.mark.parametrize(
    ("ending", "code"),
    [(Ending.FAILED, 1), (Ending.GAVE_UP, 3), (Ending.INTERRUPTED, 75)],
)
def test_the_ending_is_the_exit_code_and_its_reason_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    ending: Ending,
    code: int,
) -> None:
    runs.verdict = Verdict(ending, "for a reason")

    assert exit_code(monkeypatch, "run", "--job-dir", script.parent, script) == code
    assert "for a reason" in capsys.readouterr().err


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
        (["scale", "many"], "should be a valid integer"),
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


def test_a_folder_of_another_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    (script.parent / "journal.sqlite").touch()

    assert exit_code(monkeypatch, "run", "--job-dir", script.parent, script) == 2
    assert "already holds a job" in capsys.readouterr().err


def test_a_job_that_fails_on_the_way_exits_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: Path
) -> None:
    def fail(*_: object) -> RunResult:
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
    "kind": "train",
    "pace": "async",
    "changing": None,
    "trouble": None,
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
