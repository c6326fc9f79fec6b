"""Whoever prints goes on when nobody can read it any more."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO, cast

import pytest
from rich.table import Table

from paceline.cli.streams import Sturdy, sturdy_streams, table_console, unheeded

FORECAST = [sys.executable, "-m", "paceline.cli.main", "simulate", "--steps", "1"]


class Full(io.StringIO):
    """Takes nothing while the disk is full."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_what_cannot_be_written_is_lost_and_told() -> None:
    full = Full()
    stream = Sturdy(full)
    print("one", file=cast("TextIO", stream))
    assert stream.lost is not None
    assert stream.lost.errno == errno.ENOSPC
    full.is_full = False
    print("two", file=cast("TextIO", stream))
    assert full.getvalue() == "two\n"


def test_a_closed_stream_takes_everything() -> None:
    stream = Sturdy(None)
    print("one", file=cast("TextIO", stream), flush=True)
    assert stream.lost is not None
    assert not stream.isatty()
    with pytest.raises(OSError, match="closed"):
        stream.fileno()


def test_what_the_encoding_does_not_have_is_spelt_out() -> None:
    written = io.BytesIO()
    stream = Sturdy(io.TextIOWrapper(written, encoding="ascii"))
    print("a \udcff \u2026", file=cast("TextIO", stream), flush=True)
    assert written.getvalue() == b"a \\udcff \\u2026\n"
    assert stream.lost is None


def test_the_streams_are_as_they_were_behind_the_block() -> None:
    before = sys.stdout, sys.stderr
    with sturdy_streams() as output:
        assert cast("Sturdy", sys.stdout) is output
        sys.stdout.write("heard")
    assert (sys.stdout, sys.stderr) == before
    assert output.lost is None


def test_what_nobody_needs_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Full())
    with sturdy_streams() as output:
        with unheeded():
            sys.stdout.write("a table")
        assert output.lost is None
        sys.stdout.write("what was asked for")
        assert output.lost is not None


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize(
    ("redirected", "reason"),
    [
        (">&-", "it is closed"),
        (">/dev/full", "No space left on device"),
        ("| true", "Broken pipe"),
    ],
)
def test_a_command_whose_output_is_lost_says_so(
    redirected: str, reason: str, tmp_path: Path
) -> None:
    command = f'set -o pipefail; "$@" 2>err {redirected}'
    ended = subprocess.run(
        ["bash", "-c", command, "bash", *FORECAST], cwd=tmp_path, check=False
    )
    said = (tmp_path / "err").read_text()
    assert said == f"paceline: standard output cannot be written: {reason}\n"
    assert ended.returncode == 1


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_an_error_that_cannot_be_said_is_still_an_exit_code(
    redirected: str, tmp_path: Path
) -> None:
    command = f'"$@" --seed one >out {redirected}'
    ended = subprocess.run(
        ["bash", "-c", command, "bash", *FORECAST], cwd=tmp_path, check=False
    )
    assert ended.returncode == 2
    assert (tmp_path / "out").read_text() == ""


def test_no_file_is_taken_for_a_standard_stream(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "os.close(0), os.close(2)\n"
        "from paceline.cli.streams import sturdy_streams\n"
        "with sturdy_streams(): print(os.open(sys.executable, os.O_RDONLY))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, cwd=tmp_path
    )
    assert int(ended.stdout) > 2
    assert os.fstat(2)


def test_a_table_that_nobody_sees_on_a_terminal_has_whole_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"machine-{number}.cluster.example" for number in range(5)]
    table = Table.grid(*names)
    table.add_row(*names)

    table_console().print(table)

    shown = capsys.readouterr().out
    assert [name for name in names if name not in shown] == []
    monkeypatch.setenv("COLUMNS", "40")
    assert table_console().width == 40
