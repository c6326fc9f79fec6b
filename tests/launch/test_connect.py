"""`connect()` in one process: the same session, until it is closed."""

import importlib
import importlib.machinery
import re
import signal
import sys
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.errors import Interrupted, UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job.folder import JobDir

connecting = importlib.import_module("paceline.launch.connect")


@pytest.fixture(autouse=True)
def no_session_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(connecting, "_sessions", [])
    monkeypatch.setattr(connecting, "_jobs", [])
    monkeypatch.setattr("sys.argv", ["script.py"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)  # as `python script.py`
    monkeypatch.chdir(tmp_path)


def test_asking_again_returns_the_same_session_until_it_is_closed(tmp_path: Path) -> None:
    first = connecting.connect()
    assert connecting.connect() is first
    assert first.once("it")
    first.close()
    second = connecting.connect()
    assert second is not first
    assert second.once("it"), "a job of its own"
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert (folders[0] / "summary.json").exists(), "the first job has ended"
    second.close()
    for job in connecting._jobs:
        job.end(None)


def test_a_job_of_a_notebook_is_not_called_as_what_runs_its_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells = {"__vsc_ipynb_file__": "/notebooks/faces.ipynb"}
    monkeypatch.setattr("sys.argv", ["/lib/ipykernel_launcher.py", "-f", "x.json"])
    monkeypatch.setattr(connecting, "names_of_notebook", lambda: cells)
    connecting.connect()
    [folder] = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-faces")
    connecting._jobs[0].end(None)


def test_a_script_that_was_interrupted_begins_no_other_job() -> None:
    session = connecting.connect()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)
    session.close()
    with pytest.raises(Interrupted):
        connecting.connect()
    [job] = connecting._jobs
    assert job.end(None).exit_code == 75


def test_a_folder_that_holds_a_job_is_refused_with_the_way_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PACELINE_JOB_DIR", str(tmp_path / "job"))
    EmbeddedJob(JobConfig(run="first"), tmp_path / "job").close()
    on = f"paceline run --resume --job-dir {tmp_path / 'job'} script.py"
    with pytest.raises(UsageError, match=re.escape(on)):
        connecting.connect()


def test_a_module_is_gone_on_with_as_a_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = importlib.machinery.ModuleSpec("package.train", None)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    monkeypatch.setattr("sys.argv", ["/somewhere/package/train.py", "--rate", "1"])
    connecting.connect()
    [job] = connecting._jobs
    assert job.job.path.name.endswith("-train")
    job.end(None)
    script = JobDir(job.job.path).read_script()
    assert script == "-m package.train"


def test_how_much_is_said_is_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_QUIET", "yes")
    with pytest.raises(UsageError, match="PACELINE_QUIET: expected 1 or 0, got 'yes'"):
        connecting.connect()


def test_a_trainer_of_a_job_that_has_left_it_connects_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = EmbeddedJob(JobConfig(run="left"), tmp_path / "job")
    session = job.session("trainer-0")  # as if the environment had named the job
    monkeypatch.setattr(connecting, "_sessions", [session])
    assert connecting.connect() is session
    session.close()
    with pytest.raises(UsageError, match="close the session when the script is done"):
        connecting.connect()
    job.close()


def test_ctrl_c_once_more_behind_the_end_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Pressed:
        def end(self, _: object) -> None:
            raise KeyboardInterrupt

    codes: list[int] = []
    monkeypatch.setattr(connecting.os, "_exit", codes.append)
    connecting._end(Pressed())
    assert codes == [75]
