"""The command that goes on with a run is one that a shell takes."""

import shlex
from pathlib import Path

from paceline.launch.job.commands import resume_command


def test_a_folder_with_a_space_and_options_of_the_script_come_through() -> None:
    command = resume_command(Path("/runs/a b"), "my train.py", ["--rate", "0.1", "$x"])
    assert shlex.split(command) == [
        *("paceline", "run", "--resume", "--job-dir", "/runs/a b"),
        *("my train.py", "--rate", "0.1", "$x"),
    ]


def test_an_ordinary_one_has_no_quotes() -> None:
    assert resume_command(Path("/runs/x"), "train.py") == (
        "paceline run --resume --job-dir /runs/x train.py"
    )


def test_a_module_and_plugins_are_named_as_they_were() -> None:
    command = resume_command(Path("/x"), "-m pkg.train", ["--y"], ["rules", "/a b.py"])
    assert shlex.split(command) == [
        *("paceline", "run", "--resume", "--job-dir", "/x"),
        *("--plugin", "rules", "--plugin", "/a b.py", "-m", "pkg.train", "--y"),
    ]
