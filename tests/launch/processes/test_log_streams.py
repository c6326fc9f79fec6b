"""What a process prints when the disk of its log is full."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.launch.processes.forked import LogFile

PRINTS = """
import sys
from paceline.launch.processes.forked import open_log
open_log(sys.argv[1].encode())
print("out")
print("err", file=sys.stderr)
sys.stdout.flush()
"""


def test_what_does_not_fit_is_lost_and_the_log_says_so_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trainer-0.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = LogFile(descriptor, "<stdout>")
    assert log.write(b"one\n") == 4

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        assert log.write(b"two\n") == 4
        assert log.write(b"three\n") == 6
    log.write(b"four\n")
    os.close(descriptor)
    assert path.read_text() == (
        "one\n(the disk was full: 10 bytes are missing here)\nfour\n"
    )


def test_other_trouble_is_the_scripts_to_hear_of() -> None:
    reading, descriptor = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        LogFile(descriptor, "<stdout>").write(b"x")
    os.close(descriptor)


@pytest.mark.parametrize("place", ["log", "/dev/full"])
def test_a_script_prints_wherever_its_log_lies(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    command = [sys.executable, "-c", PRINTS, str(path)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    if place == "log":
        assert path.read_text().splitlines() == ["out", "err"]
