"""What a page says that a straggler costs, and what a backup would bring, is so."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.dashboard import Observer
from paceline.dashboard.rounds import LastRounds
from paceline.launch.job import JobDir
from paceline.timing import ManualClock
from tests.dashboard.showing import LIMIT_S, SCRIPT, words

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.system]

STEP_S = 0.15  # and four times as long for trainer-3: far more than a busy machine takes
ROUNDS = 60
BEGIN = 8  # rounds that do not count: processes begin at different times
WITHIN = 0.1


def run(folder: Path, pace: str) -> list[dict[str, Any]]:
    """The rounds of a whole run, but the first: what was committed, with its time."""
    sizes = ("--trainers", 4, "--servers", 1, "--pace", pace)
    told = {"UNEVEN_STEP_S": str(STEP_S), "UNEVEN_RECORDS": str(4 * 32 * ROUNDS)}
    subprocess.run(
        words("run", *sizes, "--job-dir", folder, SCRIPT),
        env={**os.environ, **told, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=3 * LIMIT_S,
    )
    lines = (folder / "events.jsonl").read_bytes().splitlines()
    events = [msgspec.json.decode(line) for line in lines]
    return [one for one in events if one["event"] == "RoundCommitted"][BEGIN:]


def lasted(rounds: list[dict[str, Any]]) -> float:
    """Seconds from the first to the last."""
    return float(rounds[-1]["t"] - rounds[0]["t"])


def records_per_second(rounds: list[dict[str, Any]]) -> float:
    """Of those that were in a round, and so had an effect."""
    pushes = [push for one in rounds[1:] for push in one["contributions"]]
    records = sum(push["records"] for push in pushes)
    return float(records / lasted(rounds))


def test_price_and_gain_are_what_a_backup_saves_and_brings(tmp_path: Path) -> None:
    alike = run(tmp_path / "sync", "sync")
    backup = run(tmp_path / "backup", "sync:backup=1")
    number, others = len(alike) - 1, len(backup) - 1
    assert number > ROUNDS / 2

    rounds = LastRounds()
    for one in alike[1:]:
        rounds.add(one["t"], one)
    saved_s = number * (lasted(alike) / number - lasted(backup) / others)
    told_s = rounds.lost_s["trainer-3"]
    assert told_s == pytest.approx(saved_s, rel=WITHIN), (number, others)

    observer = Observer(JobDir(tmp_path / "sync"), "sync", ManualClock())
    observer.look()
    observer.foresee()
    observer.look()
    told = json.loads(observer.beat.now)["foreseen"]
    observer.close()
    assert told.get("paces"), told  # none is told where forecast and measured differ
    brings = records_per_second(backup) / records_per_second(alike)
    assert dict(told["paces"])["sync:backup=1"] == pytest.approx(brings, rel=WITHIN)
