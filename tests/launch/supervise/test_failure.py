"""What a dying script tells of its failure, and what its launcher reads."""

from pathlib import Path

import pytest

from paceline.errors import JobFailed
from paceline.ids import TaskKey
from paceline.launch.supervise.failure import (
    Failure,
    failure_of,
    take_failure,
    write_failure,
)


def error_of(script: Path, text: str) -> BaseException:
    script.write_text(text)
    try:
        exec(compile(text, str(script), "exec"), {})
    except BaseException as error:  # noqa: BLE001  (SystemExit, too)
        return error
    raise AssertionError("it raises")


def test_the_place_is_the_innermost_line_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = "import json\ndef step():\n    json.loads('{')\nstep()\n"
    failure = failure_of(error_of(script, text), 12, (TaskKey(0, 1, 3), 5))
    assert failure.kind == "json.decoder.JSONDecodeError"
    assert (failure.batches, failure.task, failure.batch) == (12, "s0/e1/t3", 5)
    assert failure.is_own
    assert str(failure).startswith("JSONDecodeError: Expecting property name")
    assert str(failure).endswith(", at train.py:3, after 12 batches")


def test_an_exit_with_a_text_is_told_as_the_exception_that_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    error = error_of(script, "import sys\n\nsys.exit('the loss is not finite')\n")
    said = str(failure_of(error, 41, None))
    assert said == "SystemExit: the loss is not finite, at train.py:3, after 41 batches"


def test_a_name_that_is_no_utf8_can_be_told(tmp_path: Path) -> None:
    error = error_of(tmp_path / "\udcff.py", "open('\\udcff')\n")
    write_failure(tmp_path / "told", failure_of(error, 0, None))
    told = take_failure(tmp_path / "told")
    assert told is not None
    assert "No such file or directory: '\\udcff'" in told.text
    assert told.place == "\\udcff.py:1"


@pytest.mark.parametrize(
    "error", [OSError("stale handle"), JobFailed("no coordinator"), KeyboardInterrupt()]
)
def test_what_may_pass_is_not_the_scripts_own(error: BaseException) -> None:
    assert not failure_of(error, 1, None).is_own


def test_a_failure_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "trainer-0.failure.json"
    failure = failure_of(ValueError("x\ny"), 1, None)
    assert failure.text == "ValueError: x"
    write_failure(path, failure)
    assert take_failure(path) == failure
    assert take_failure(path) is None


def test_what_cannot_be_written_or_read_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "trainer-0.failure.json"
    write_failure(path, Failure("k", "t", "p", 1, None, 0, is_own=True))
    assert take_failure(path) is None
    broken = tmp_path / "broken"
    broken.write_text("{")
    assert take_failure(broken) is None
