"""`paceline.run` decides as the command does, and comes back as Python does."""

import inspect
from pathlib import Path

import pytest
from msgspec.structs import replace

import paceline
from paceline.cli import run as command
from paceline.cli.called.call import RunOptions, run
from paceline.errors import PREEMPTED_EXIT_CODE, Interrupted
from paceline.launch.job.environment import ROLE, RUN
from paceline.launch.job.folder import JobDir
from paceline.watch.summary import Ending, Verdict
from tests.cli.running import STATUS, Runs, exit_code

OF_MACHINES = {  # options that let other machines in, or are about printing
    *("listen", "network", "advertise", "ports", "await_hosts", "hosts", "ssh", "remote"),
    *("engine", "trainers_per_host", "trainer_resources", "no_upload", "plain"),
    *("coordinator_only", "as_json", "arguments"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_has_the_options_of_the_command_but_those_for_other_machines() -> None:
    own = {*inspect.signature(run).parameters, *RunOptions.__annotations__}
    assert (
        own - {"args", "options"}
        == set(inspect.signature(command.run).parameters) - OF_MACHINES
    )
    with pytest.raises(paceline.UsageError, match=r"got \['trainer'\]"):
        run(__file__, trainer=2)  # type: ignore[call-arg]  # misspelt
    with pytest.raises(paceline.UsageError, match=r"is called with is args=\[\.\.\.\]"):
        run(__file__, kwargs={"epochs": 1})  # type: ignore[call-arg]  # as of a function


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"plugin": "rules"}, r"expected a list for plugin, as \['rules'\]"),
        ({"tee": "trainer-0"}, "expected a list for tee"),
        ({"track": 1}, "expected a list for track"),
        ({"args": "--lr 1"}, "expected a list for args"),
        ({"pace": 3}, "expected a pace, as 'ssp:3', got pace=3"),
        ({"pace": ["ssp"]}, "expected a pace"),
        ({"script": 3}, "expected a script or a function, got 3"),
    ],
    ids=str,
)
def test_what_is_of_another_kind_is_refused_before_anything_begins(
    wrong: dict[str, object], told: str, script: Path
) -> None:
    with pytest.raises(paceline.UsageError, match=told):
        run(**{"script": script, **wrong})  # type: ignore[arg-type]  # that is the point
    assert not list(Path().glob("runs*"))


def test_it_runs_what_the_command_runs(
    runs: Runs, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--trainers", "2:6", "--servers", 2, "--pace", "ssp:3", "--timeout", "4s")
    words += ("--checkpoint-every", "1000steps", "--keep", 5, "--job-dir", "a")
    exit_code(monkeypatch, "run", *words, script, "--lr", "0.1")
    first, ran = runs.config, runs.script

    run(
        script,
        args=["--lr", 0.1],
        trainers="2:6",
        servers=2,
        pace=paceline.SSP(3),
        timeout=4,
        checkpoint_every="1000steps",
        keep=5,
        job_dir="b",
    )

    assert runs.script == ran
    own = {"run": "", "job": ""}
    assert replace(runs.config, **own) == replace(first, **own)


def test_it_gives_the_summary_which_a_notebook_shows_as_a_table(
    runs: Runs, script: Path
) -> None:
    summary = run(script, trainers=4)

    assert summary.records == STATUS.records
    assert summary.metrics == {"loss": 0.25}
    assert Path(summary.job_dir).name.endswith("-train")
    assert runs.config.trainers == 4
    shown = summary._repr_html_()
    assert "<td style='text-align:left'>512</td>" in shown
    assert shown.startswith("<table>")


def test_a_name_of_a_metric_is_no_html(runs: Runs, script: Path) -> None:
    del runs
    summary = paceline.run(script)
    assert "<b>" not in replace(summary, metrics={"<b>": 1.0})._repr_html_()


def test_a_job_that_failed_is_an_error_with_all_that_is_to_be_said(
    runs: Runs, script: Path
) -> None:
    runs.verdict = Verdict(Ending.FAILED, "trainer-0 died 4 times in a row")
    runs.said = ("trainer-0 failed on the way, 4 times",)

    with pytest.raises(paceline.JobFailed, match="died 4 times in a row") as failed:
        run(script)

    assert failed.value.__notes__ == ["paceline: trainer-0 failed on the way, 4 times"]


def test_an_interrupted_job_ends_the_script_with_the_code_of_the_command(
    runs: Runs, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.verdict = Verdict(Ending.INTERRUPTED, "interrupted; saved as cut 3")
    runs.said = ("go on with: paceline run --resume",)

    with pytest.raises(Interrupted) as ended:
        run(script)

    assert ended.value.code == PREEMPTED_EXIT_CODE
    assert isinstance(ended.value, KeyboardInterrupt)
    assert "go on with" in capsys.readouterr().err


def test_tasks_that_were_given_up_are_warned_of(runs: Runs, script: Path) -> None:
    runs.verdict = Verdict(Ending.GAVE_UP, "2 tasks were given up")
    with pytest.warns(paceline.IncompleteWarning, match="2 tasks were given up") as told:
        assert run(script).ending == "gave up"
    assert told[0].filename == __file__


def test_what_cannot_be_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(paceline.UsageError, match=r"there is no script .missing\.py."):
        run("missing.py")
    with pytest.raises(paceline.UsageError, match=r"pace .slow."):
        run(__file__, pace="slow")
    assert list(tmp_path.iterdir()) == []


def test_a_job_goes_on_in_its_folder(runs: Runs, script: Path, tmp_path: Path) -> None:
    run(script, job_dir="mine", seed=3)
    JobDir(Path("mine")).claim(runs.config, "train.py")

    run(script, job_dir=tmp_path / "mine", resume=True, trainers=3)

    assert runs.is_resumed
    assert (runs.config.seed, runs.config.trainers) == (3, 3)


def test_a_trainer_starts_no_job(
    runs: Runs, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del runs
    place = {ROLE: "trainer-1", RUN: "r", "PACELINE_JOB_DIR": "j", "PACELINE_SOCKETS": "s"}
    place |= {"PACELINE_COORDINATOR": "unix:c", "PACELINE_LAUNCHER": "1"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(paceline.UsageError, match="this process is trainer-1 of one"):
        run(script)
