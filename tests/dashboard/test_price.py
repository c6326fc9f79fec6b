"""What a page says that a straggler costs is what a backup would save."""

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from paceline.dashboard.rounds import LastRounds
from tests.dashboard.showing import LIMIT_S, SCRIPT, words

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.system]

STEP_S = 0.15  # and four times as long for trainer-3: far more than a busy machine takes
ROUNDS = 60
BEGIN = 8  # rounds that do not count: processes begin at different times
WITHIN = 0.1


def rounds_of(folder: Path, pace: str) -> tuple[LastRounds, float, int]:
    """Rounds of a whole run, seconds from the first to the last, and how many there are."""
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
    closed = [one for one in events if one["event"] == "RoundCommitted"][BEGIN:]
    rounds = LastRounds()
    for one in closed[1:]:
        rounds.add(one["t"], one)
    return rounds, closed[-1]["t"] - closed[0]["t"], len(closed) - 1


def test_the_price_of_a_straggler_is_what_a_backup_saves(tmp_path: Path) -> None:
    rounds, lasted_s, number = rounds_of(tmp_path / "sync", "sync")
    _, without_s, others = rounds_of(tmp_path / "backup", "sync:backup=1")

    saved_s = number * (lasted_s / number - without_s / others)
    told_s = rounds.lost_s["trainer-3"]
    assert number > ROUNDS / 2
    assert told_s == pytest.approx(saved_s, rel=WITHIN), (
        lasted_s,
        number,
        without_s,
        others,
    )
