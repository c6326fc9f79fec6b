"""The closing line of the checks tells the truth."""

import re
from pathlib import Path

import pytest

from tools import check
from tools.check import FAST_FOLDERS, LINT_STEPS, Counts, count

ROOT = Path(__file__).parents[2]

REPORT = """<testsuites><testsuite>
  <testcase name="a"/>
  <testcase name="b"/>
  <testcase name="c"><failure/></testcase>
  <testcase name="d"><error/></testcase>
  <testcase name="e"><skipped/></testcase>
</testsuite></testsuites>"""


def test_failures_and_errors_count_as_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert count(report) == Counts(passed=2, failed=2, skipped=1)


def test_a_run_that_left_no_report_counts_as_one_failure(tmp_path: Path) -> None:
    assert count(tmp_path / "missing.xml") == Counts(failed=1)


@pytest.mark.parametrize(("step", "is_content"), [("around", False), ("rooms", True)])
def test_a_skip_around_is_a_failure(
    step: str, is_content: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], _: object) -> int:
        report = next(word for word in command if word.startswith("--junitxml="))
        Path(report.partition("=")[2]).write_text("<a><testcase><skipped/></testcase></a>")
        return 0

    monkeypatch.setattr(check, "run_command", run)
    assert check.run_test_step(step, [], tmp_path) == (is_content, Counts(skipped=1))


def test_a_torn_report_counts_as_one_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT[:-20])
    assert count(report) == Counts(failed=1)


def test_counts_add_up_and_read_as_the_closing_line() -> None:
    total = Counts(2, 1).plus(Counts(3, 0))
    assert str(total) == "5 passed, 1 failed"
    assert str(total.plus(Counts(skipped=2))) == "5 passed, 1 failed, 2 skipped"


def test_hooks_before_a_commit_are_the_commands_of_lint() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = [entry.split() for entry in re.findall(r"entry: \.venv/bin/(.*)", hooks)]
    commands = [command for commands in LINT_STEPS.values() for command in commands]
    wanted = [[word for word in command if word != "."] for command in commands]
    assert sorted(entries) == sorted(wanted)


def test_the_fast_tests_are_where_check_looks() -> None:
    assert not [name for name in FAST_FOLDERS if not (ROOT / "tests" / name).exists()]
