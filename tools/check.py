"""Runs every check of the house in order and ends with one line of counts.

::

    format, lint, types    stop at the first that fails: no test is run on a broken tree
    rooms                  the rules of the house, then every room's own tests, the fast
                           ones before those over 0.25 s; in two processes
    system                 those with real processes, and what users copy: the examples;
                           in two processes, too
    around                 what needs libraries that paceline can do without: Parquet,
                           object stores, the site, engines, browsers, a first change;
                           nothing of it may be skipped

Waits for each command, without a bound of its own: pytest ends tests that hang. The last
line says how many tests passed and failed over all steps; the exit status is 0 only when
every step did what it should. Runs from the repository's root, reads nothing from stdin::

    .venv/bin/python tools/check.py            everything
    .venv/bin/python tools/check.py lint       the named groups: lint, fast, test,
                                             around, soak

The fast tests are those of rooms by themselves, without the slow ones: two minutes with
`lint` on two idle cores. Whole jobs, and the trainer's rooms that carry, are left out.

A soak takes hours: it looks at as much as `SOAK_SIZES` says.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from paceline.launch.job.environment import KEPT_MEMORY

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
NO_TESTS_COLLECTED = 5  # pytest's exit status

LINT_STEPS = {  # {step: commands}
    "format": [["ruff", "format", "--check", "."]],
    "lint": [["ruff", "check", "."], ["lint-imports", "--no-cache", "--no-logo"]],
    "types": [["mypy"]],
}
TWO_PROCESSES = ["--numprocesses=2", "--dist=worksteal"]
TEST_STEPS = {  # {step: arguments of pytest}; few, since each process imports torch
    "rooms": ["tests", *TWO_PROCESSES, "-m", "not system and not soak and not around"],
    "system": ["tests", *TWO_PROCESSES, "-m", "system and not soak and not around"],
}
AROUND_STEPS = {"around": ["tests", *TWO_PROCESSES, "-rs", "-m", "around and not soak"]}
FAST_FOLDERS = [  # a room by itself; of the trainer what is pure
    *("architecture", "cli", "coordinator", "data", "launch", "messages", "pace"),
    *("pace_specs", "params", "server", "store", "tools", "transport", "watch"),
    *("trainer/protocol", "trainer/holdings", "test_config.py", "test_events.py"),
]
FAST_STEPS = {
    "fast": [
        *(f"tests/{folder}" for folder in FAST_FOLDERS),
        *TWO_PROCESSES,
        *("-m", "not slow and not system and not soak and not around"),
    ],
}
SOAK_STEPS = {
    "seeds": ["tests/simulate", "-m", "slow", "-rP", *TWO_PROCESSES],
    "reads": ["tests/cluster/test_ssp.py", "-rP"],
    "soak": ["tests", "-m", "soak"],
}
TEST_GROUPS = {
    "fast": FAST_STEPS,
    "test": TEST_STEPS,
    "around": AROUND_STEPS,
    "soak": SOAK_STEPS,
}
SOAK_SIZES = {  # {variable: how much is looked at, unless it is set already}
    "PACELINE_SIM_SEEDS": "20000",
    "PACELINE_SIM_SECONDS": "1e9",
    "PACELINE_SIM_READS": "1000000",
    "PACELINE_REAL_READS": "10000",
}


class Counts(NamedTuple):
    """Tests by how they ended; an error outside of a test's body counts as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __str__(self) -> str:
        """The closing line."""
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


def count(report: Path) -> Counts:
    """The counts of a JUnit report; one failure if pytest did not live to write it."""
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return Counts(failed=1)
    failed = sum(
        case.find("failure") is not None or case.find("error") is not None for case in cases
    )
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Counts(len(cases) - failed - skipped, failed, skipped)


def run_command(command: list[str], sizes: dict[str, str] | None = None) -> int:
    """Run a program of the virtual environment and return its exit status.

    Args:
        command: the program and its arguments.
        sizes: variables of its environment, where they are not set already.
    """
    program = [str(BIN / command[0]), *command[1:]]
    return subprocess.run(
        program,
        cwd=ROOT,
        env={**KEPT_MEMORY, **(sizes or {}), **os.environ},
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode


def run_lint_step(commands: list[list[str]]) -> bool:
    """Run commands until one fails; whether all were content."""
    return all(run_command(command) == 0 for command in commands)


def run_test_step(step: str, arguments: list[str], folder: Path) -> tuple[bool, Counts]:
    """Run pytest once; whether it was content, and its counts."""
    report = folder / f"{step}.xml"
    status = run_command(
        ["python", "-m", "pytest", "-q", *arguments, f"--junitxml={report}"],
        SOAK_SIZES if step in SOAK_STEPS else None,
    )
    if status == NO_TESTS_COLLECTED:
        return True, Counts()
    counts = count(report)
    is_whole = step not in AROUND_STEPS or counts.skipped == 0
    return status == 0 and counts.failed == 0 and is_whole, counts


def announce(step: str) -> float:
    """Print the step's name and return the moment it began."""
    print(f"== {step}", flush=True)
    return time.monotonic()


def conclude(step: str, is_content: bool, began_s: float) -> None:
    """Print how a step ended and how long it took."""
    verdict = "ok" if is_content else "FAILED"
    print(f"== {step}: {verdict} ({time.monotonic() - began_s:.1f} s)", flush=True)


def check_lint() -> list[str]:
    """The steps that failed: none, or the first that did."""
    for step, commands in LINT_STEPS.items():
        began_s = announce(step)
        is_content = run_lint_step(commands)
        conclude(step, is_content, began_s)
        if not is_content:
            return [step]
    return []


def check_tests(steps: dict[str, list[str]]) -> tuple[list[str], Counts]:
    """The steps that failed, and the counts of all."""
    failures, total = [], Counts()
    with tempfile.TemporaryDirectory(prefix="paceline-check-") as folder:
        for step, arguments in steps.items():
            if not (ROOT / arguments[0]).is_dir():
                continue
            began_s = announce(step)
            is_content, counts = run_test_step(step, arguments, Path(folder))
            conclude(step, is_content, began_s)
            total = total.plus(counts)
            if not is_content:
                failures.append(step)
    return failures, total


def main(groups: list[str]) -> int:
    """Run the named groups of steps and return the exit status."""
    unknown = set(groups) - {"lint", *TEST_GROUPS}
    if unknown:
        known = ", ".join(["lint", *TEST_GROUPS])
        print(f"expected some of {known}, got {', '.join(sorted(unknown))}")
        return 2
    groups = groups or ["lint", "test"]
    failures = check_lint() if "lint" in groups else []
    steps = {
        step: arguments
        for group, found in TEST_GROUPS.items()
        if group in groups
        for step, arguments in found.items()
    }
    total = Counts()
    if steps and failures:
        print("no test has been run: mend the step above first")
    elif steps:
        failures, total = check_tests(steps)
    if failures:
        print(f"failed: {', '.join(failures)}")
    if steps:
        print(total, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
