"""Everyone reads the same numbers, and rates count only if they did."""

from pathlib import Path

import pytest

from benchmarks.ctr.read_epoch import by_paceline
from benchmarks.ctr.readers import (
    Candidate,
    Epoch,
    File,
    equal_sums,
    figures_of,
    ratios_of,
    write_files,
)

CSV = File("csv", Path("a.csv"), 1000, "pandas")
OURS, PEER = Candidate(CSV, "paceline"), Candidate(CSV, "pandas")


def test_an_epoch_has_every_number_once_however_it_is_cut(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for file in write_files(60, tmp_path):
        whole, cut = (sum(by_paceline(file.path, file.records, size)) for size in (1000, 7))
        assert cut == pytest.approx(whole, rel=1e-5)
        assert whole > 0


def test_a_goal_is_of_ours_alone_and_the_peer_is_compared() -> None:
    runs = {OURS: [Epoch(60_000.0, 1.0)], PEER: [Epoch(30_000.0, 1.0)]}
    assert [figure.kind for figure in figures_of(runs)] == ["ours", "peer"]
    goal, beside = ratios_of(runs)
    assert (goal.goal_name, goal.value, goal.verdict) == ("read-csv", 60_000, "reached")
    assert (beside.against, beside.value) == ("pandas", 2)


def test_other_sums_are_not_equal() -> None:
    runs = {OURS: [Epoch(1.0, 100.0)], PEER: [Epoch(1.0, 100.01)]}
    is_equal, told = equal_sums(runs)
    assert not is_equal
    assert told == "the sums of all numbers differ by 1.0e-04 of them"
