"""Which job a command is for, and where the secret comes from that it is asked with."""

import io
import shlex
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.environment import given_secret
from paceline.launch.job.folder import RUNS, JobDir
from paceline.launch.job.joining import JobDoor
from paceline.launch.job.naming import (
    ask_secret,
    named_job,
    notebook_name,
    pace_command,
    shown_name,
)
from paceline.transport.address import TcpAddress
from paceline.transport.handshake import Secret

FOUND = JobDir(Path("found"))


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> Secret:
    """The one that the environment names."""
    secret = Secret.fresh()
    monkeypatch.delenv("PACELINE_SECRET_FILE", raising=False)
    monkeypatch.setenv("PACELINE_SECRET", secret.text())
    return secret


def find(root: Path) -> JobDir:
    assert root == RUNS
    return FOUND


def test_a_job_is_named_by_its_folder_or_its_launcher_or_found(secret: Secret) -> None:
    assert named_job(None, None, find) is FOUND
    folder = named_job(Path("mine"), None, find)
    assert isinstance(folder, JobDir)
    assert shown_name(folder) == str(Path("mine").absolute())
    door = named_job(None, "127.0.0.1:70", find)
    assert door == JobDoor(TcpAddress("127.0.0.1", 70), secret)
    assert shown_name(door) == "127.0.0.1:70"
    assert secret.text() not in repr(door)


def test_the_command_that_changes_a_pace_names_the_job_as_a_shell_reads_it(
    secret: Secret,
) -> None:
    folder = JobDir(Path("my job; ls"))
    door = JobDoor(TcpAddress("127.0.0.1", 70), secret)

    told = pace_command(folder, "sync:backup=1")
    assert shlex.split(told) == ["paceline", "pace", str(folder.path), "sync:backup=1"]
    assert folder.path.is_absolute()
    assert pace_command(door, "async") == "paceline pace --join 127.0.0.1:70 async"
    plain = pace_command(door._replace(is_plain=True), "async")
    assert plain == "paceline pace --join 127.0.0.1:70 --plain async"


def test_a_job_is_not_named_twice_nor_by_what_is_no_address() -> None:
    with pytest.raises(UsageError, match="by its folder, mine, or by --join, not by both"):
        named_job(Path("mine"), "127.0.0.1:70", find)
    with pytest.raises(UsageError, match=r"^--join: "):
        named_job(None, "nowhere", find)


def test_a_secret_that_the_environment_does_not_name_is_read(
    monkeypatch: pytest.MonkeyPatch, secret: Secret
) -> None:
    monkeypatch.delenv("PACELINE_SECRET")
    monkeypatch.setattr("sys.stdin", io.StringIO(secret.text() + "\nmore\n"))
    assert ask_secret({}) == secret
    with pytest.raises(UsageError, match="standard input: expected a secret of 64"):
        ask_secret({})


def test_an_empty_file_of_the_secret_says_what_to_write(tmp_path: Path) -> None:
    (path := tmp_path / "secret").write_text("\n")
    with pytest.raises(UsageError, match=f"empty.*openssl rand -hex 32 > {path}"):
        given_secret({"PACELINE_SECRET_FILE": str(path)})


@pytest.mark.parametrize(
    ("environ", "cells", "name"),
    [
        ({}, {}, "notebook"),
        ({"JPY_SESSION_NAME": "/notebooks/my model v1.2.ipynb"}, {}, "my-model-v1.2"),
        ({}, {"__vsc_ipynb_file__": "/notebooks/études.ipynb"}, "études"),
        ({"JPY_SESSION_NAME": ""}, {"__vsc_ipynb_file__": None}, "notebook"),
        ({}, {"__vsc_ipynb_file__": "untitled:Untitled-1.ipynb"}, "untitled-Untitled-1"),
        ({"JPY_SESSION_NAME": "/notebooks/?.ipynb"}, {}, "notebook"),
    ],
)
def test_a_job_is_called_as_the_notebook_that_begins_it(
    environ: dict[str, str], cells: dict[str, object], name: str
) -> None:
    assert notebook_name(environ, cells) == name
