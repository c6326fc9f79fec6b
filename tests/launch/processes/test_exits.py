"""Why a process ended: who is to blame, and in which words."""

import pytest

from paceline.errors import (
    DISK_EXIT_CODE,
    ForeignPeer,
    HandshakeRefused,
    JobFailed,
    UsageError,
)
from paceline.launch.processes.exits import (
    describe_exit,
    exit_code_of,
    explain_exit,
    is_crash,
)

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "ValueError: expected 4 columns, got 3",
]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "exit code 1"),
        (-9, "signal SIGKILL"),
        (-64, "signal SIGRTMAX"),
        (-99, "signal 99"),
    ],
)
def test_an_exit_is_described_in_words(status: int, words: str) -> None:
    assert describe_exit(status) == words


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("share: 'x' is shared already"), 2),
        (ForeignPeer("expects run 'a', the other end has 'b'"), 2),
        (HandshakeRefused("4 connections are enough"), 1),
        (JobFailed("no coordinator"), 1),
        (ValueError("4 columns"), 1),
    ],
)
def test_what_would_happen_again_at_each_start_has_a_code_of_its_own(
    error: Exception, code: int
) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize("status", [1, 2, -6, -11])
def test_an_exception_or_a_segmentation_fault_is_a_crash(status: int) -> None:
    assert is_crash(status)


@pytest.mark.parametrize("status", [0, 75, -9, -15, -2])
def test_being_killed_from_outside_or_told_to_leave_is_none(status: int) -> None:
    assert not is_crash(status)


@pytest.mark.parametrize(
    ("status", "lines", "said"),
    [
        (1, TRACEBACK, "exit code 1: ValueError: expected 4 columns, got 3"),
        (
            1,
            ["RuntimeError: CUDA out of memory. Tried"],
            "exit code 1: memory ran out; start",
        ),
        (-9, [], "signal SIGKILL: killed from outside; if memory ran out, start fewer"),
        (-11, [], "signal SIGSEGV: it crashed in native code"),
        (-15, [], "signal SIGTERM"),
        (75, [], "exit code 75: it was told to leave"),
        (3, ["all is said"], "exit code 3"),
    ],
)
def test_an_exit_is_explained(status: int, lines: list[str], said: str) -> None:
    assert explain_exit(status, lines).startswith(said)


def test_an_error_of_many_lines_is_named_by_its_first() -> None:
    second = ["During handling of the above exception, another exception occurred:", ""]
    wide = [*TRACEBACK, "", *second, *TRACEBACK[:2], "KeyError: 'bn'", "for layer 3", ""]
    assert explain_exit(1, wide) == "exit code 1: KeyError: 'bn'"


def test_an_error_that_its_script_has_told_is_named_where_its_traceback_is_cut_off() -> (
    None
):
    assert explain_exit(1, TRACEBACK[1:], "ValueError: x") == "exit code 1: ValueError: x"
    assert explain_exit(-9, [], "ValueError: x").startswith("signal SIGKILL: killed")


def test_a_coordinator_without_space_says_whose_disk_it_is() -> None:
    said = explain_exit(DISK_EXIT_CODE, [])
    assert said == (
        "exit code 74: the disk of the job folder takes nothing (full, or read-only)"
    )
