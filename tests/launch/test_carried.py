"""A function comes to trainers as it was, to them alone, and brings little with it."""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch import carried
from paceline.launch.carried import MOST_BYTES, carry
from paceline.launch.job.commands import resume_command
from paceline.launch.job.environment import ROLE, Place
from paceline.launch.job.sockets import keep_function, remove_left, remove_sockets

TABLE = bytes(2 * MOST_BYTES)
LOCK = threading.Lock()
calls: list[tuple[object, ...]] = []


def note(*args: object) -> None:
    calls.append(args)


def by_value(text: str) -> Callable[..., object]:
    """A function as a notebook has it: of no module that others could import."""
    names: dict[str, object] = {"__name__": "__main__", "TABLE": TABLE, "LOCK": LOCK}
    exec(text, names)
    made = names["train"]
    assert callable(made)
    return made


def test_a_function_is_named_as_it_is_called_and_its_run_goes_on_from_python() -> None:
    script = carry(note, ())
    assert (script.named, script.is_module) == ("note()", True)
    assert resume_command(Path("runs/a"), script.named) == (
        "paceline.run(note, job_dir='runs/a', resume=True)"
    )
    assert resume_command(Path("a"), carry(lambda: None, ()).named) == (
        "paceline.run(function, job_dir='a', resume=True)"
    )


def test_a_run_goes_on_with_arguments_that_its_caller_has() -> None:
    assert resume_command(Path("runs/a"), carry(note, (1,)).named) == (
        "paceline.run(note, args=(...), job_dir='runs/a', resume=True)"
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("def train():\n    return len(TABLE)", "'TABLE'"),
        (
            "def train():\n    def inner():\n        return TABLE\n    return inner()",
            "'TABLE'",
        ),
        (
            "def helper():\n    return TABLE\ndef train():\n    return helper()",
            "'TABLE' of 'helper'",
        ),
        (
            "def make(rows):\n    def train():\n        return rows\n    return train\n"
            "train = make(TABLE)",
            "'rows'",
        ),
    ],
)
def test_a_large_variable_is_refused_by_its_name(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"most of it is {named}: load or make it inside"):
        carry(by_value(text), ())


def test_an_attribute_is_no_variable_of_that_name() -> None:
    made = by_value(
        "class Row:\n    TABLE = 1\nrows = bytes(2 << 20)\n"
        "def train():\n    return Row.TABLE, rows"
    )
    with pytest.raises(UsageError, match="most of it is 'rows'"):
        carry(made, ())


def test_paths_that_are_no_text_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [Path("beside"), *sys.path])
    assert carry(note, ()).content


def test_a_large_argument_is_refused_by_its_place() -> None:
    with pytest.raises(UsageError, match=r"most of it is 'args\[1\]'"):
        carry(note, (1, TABLE))


def test_what_cannot_travel_is_refused_by_its_name() -> None:
    made = by_value("def train():\n    with LOCK:\n        return 1")
    with pytest.raises(UsageError, match="'LOCK' cannot be taken to trainers"):
        carry(made, ())


def test_without_its_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^paceline.run takes a function .* pip install"):
        carry(note, ())


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job whose trainer this process is."""
    folder = tmp_path / "paceline-run-x"
    folder.mkdir(mode=0o700)
    place = Place("r", "trainer-0", tmp_path, "unix:c", folder, os.getpid())
    for name, value in place.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.path", list(sys.path))
    calls.clear()
    return folder


def test_a_trainer_calls_it_and_finds_what_its_caller_imports(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend("/beside/the/notebook")
    script = carry(note, (1, "two"))
    monkeypatch.setattr("sys.path", [p for p in sys.path if p != "/beside/the/notebook"])
    keep_function(sockets, script.content)
    monkeypatch.setattr("sys.argv", ["carried", *script.arguments])

    carried.main()

    assert calls == [(1, "two")]
    assert sys.path[0] == "/beside/the/notebook", "before what a trainer finds by itself"


def test_it_lies_where_only_its_user_reads_and_goes_with_the_folder(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_function(sockets, b"content")
    [kept] = sockets.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600

    monkeypatch.setattr("tempfile.tempdir", str(sockets.parent))
    assert remove_left(sockets) is None, "as a killed launcher leaves it"
    assert not sockets.exists()


def test_another_function_than_its_launcher_kept_is_not_called(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, planted = carry(note, (1,)), carry(note, (2,))
    keep_function(sockets, planted.content)
    monkeypatch.setattr("sys.argv", ["carried", *wanted.arguments])

    with pytest.raises(UsageError, match="not what the launcher kept"):
        carried.main()
    assert calls == []


def test_a_function_that_others_may_read_or_write_is_not_called(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = carry(note, ())
    keep_function(sockets, script.content)
    monkeypatch.setattr("sys.argv", ["carried", *script.arguments])
    [kept] = sockets.iterdir()
    kept.chmod(0o622)
    with pytest.raises(UsageError, match=r"with mode 0600, got user .* and mode 0622"):
        carried.main()

    kept.rename(sockets.parent / "elsewhere")
    kept.symlink_to(sockets.parent / "elsewhere")
    with pytest.raises(UsageError, match="cannot read the function"):
        carried.main()
    remove_sockets(sockets)
    assert calls == []


def test_a_server_calls_no_function(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = carry(note, ())
    keep_function(sockets, script.content)
    monkeypatch.setattr("sys.argv", ["carried", *script.arguments])
    monkeypatch.setenv(ROLE, "server-0")
    monkeypatch.setenv("PACELINE_ADDRESS", "unix:s")

    with pytest.raises(UsageError, match="called by trainers"):
        carried.main()
    assert calls == []


def test_the_digest_is_that_of_all_that_travels() -> None:
    script = carry(note, ())
    assert script.arguments == (hashlib.sha256(script.content).hexdigest(),)
