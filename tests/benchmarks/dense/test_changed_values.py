"""What looking costs is a share of steps timed beside it, and judged by its goal."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.dense import changed_values
from benchmarks.harness.goals import wanted


def shares(
    monkeypatch: pytest.MonkeyPatch, folder: Path, found: list[float], *flags: str
) -> tuple[int, Any]:
    """The exit status and the record where measuring finds these."""
    coming = iter(found)
    monkeypatch.setattr(changed_values, "measure", lambda _clock, _looks: next(coming))
    monkeypatch.setattr("benchmarks.harness.bench.circumstances", lambda _: {})
    monkeypatch.setattr("benchmarks.harness.record.FOLDER", folder)
    flags = (f"--times={len(found)}", *flags)
    status = changed_values.main(["changed_values", *flags])
    (kept,) = folder.glob("changed_values-*.json")
    return status, json.loads(kept.read_text())


@pytest.mark.slow
def test_both_are_timed_in_turns() -> None:
    class Ticking:
        """Every look at it takes one second."""

        now = 0.0

        def now_s(self) -> float:
            self.now += 1.0
            return self.now

    share = changed_values.measure(Ticking(), 0)  # type: ignore[arg-type]
    assert share == 200.0, "before each step, and behind it"


@pytest.mark.parametrize(("found", "status"), [([0.4, 2.0, 0.9], 0), ([1.2, 0.3, 1.1], 1)])
def test_the_median_is_judged(
    found: list[float], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended, record = shares(monkeypatch, tmp_path, found)
    assert ended == status
    (ratio,) = record["ratios"]
    assert ratio["value"] == sorted(found)[1]
    assert ratio["at_most"] == wanted("changed-values").at_most == 1.0


def test_a_short_loop_says_nothing_of_the_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, record = shares(monkeypatch, tmp_path, [3.0], "--looks=1")
    assert (status, record["ratios"]) == (0, [])
