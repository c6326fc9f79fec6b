"""The page is drawn from records, and says what they are worth."""

import json
from pathlib import Path

import pytest

from benchmarks.harness.figures import Figure, Found, compared, judged, kept
from benchmarks.harness.goals import TABLE
from benchmarks.harness.page import (
    Kept,
    doubts,
    goal_rows,
    main,
    markdown_table,
    newest,
    section,
)

OURS = Figure("pull", "paceline", "ours", "us", (20.0,) * 5)
PEER = Figure("pull", "torch RPC", "peer", "us", (10.0,) * 5)
FLOOR = Figure("pull", "memcpy", "floor", "us", (1.0,) * 5)


def record(*, is_equal: bool = True, **changes: object) -> dict[str, object]:
    ratios = [compared(OURS, PEER), compared(OURS, FLOOR)]
    return {
        "command": "python -m benchmarks.transport.compare",
        "commit": "0123456789",
        "is_changed": False,
        "date": "2026-11-22T00:00:00+00:00",
        "machine": "A, machine, 2 cores",
        "busy_share": 0.01,
        "python": "3.11.7",
        "versions": {"torch": "2.13.0"},
        **kept(Found([OURS, PEER, FLOOR], ratios, "the same bytes", is_equal)),
        **changes,
    }


def test_a_calm_whole_record_leaves_no_doubt() -> None:
    assert doubts(record()) == []


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        ({"busy_share": 0.6}, "the machine was 60% busy"),
        ({"is_changed": True}, "the tree had changes"),
        ({"is_equal": False}, "not equal"),
        ({"figures": [OURS._replace(values=(1.0,))._asdict()]}, "of 1 run only"),
    ],
)
def test_doubts_are_told(changes: dict[str, object], doubt: str) -> None:
    (said,) = doubts({**record(), **changes})
    assert doubt in said


def test_where_we_lose_the_page_says_so_but_not_of_a_floor() -> None:
    text = section(Kept("transport", record()), "p.png")
    assert "| pull | paceline | torch RPC | 0.50 times |  | we lose |" in text
    assert "| pull | paceline | memcpy | 0.05 times |  | floor |" in text
    assert "`python -m benchmarks.transport.compare` at `0123456`" in text


def test_the_newest_record_with_ratios_counts(tmp_path: Path) -> None:
    for moment, python in (("20260101-000000", "old"), ("20260102-000000", "new")):
        path = tmp_path / f"transport-{moment}.json"
        path.write_text(json.dumps(record(python=python)))
    (tmp_path / "transport-20260103-000000.json").write_text('{"figures": []}')
    (tmp_path / "ctr_peers-20260101-000000.json").write_text(json.dumps(record()))
    assert [(name, one["python"]) for name, one in newest(tmp_path)] == [
        ("ctr_peers", "3.11.7"),
        ("transport", "new"),
    ]


def rows_of(found: list[Kept], what: str) -> list[list[str]]:
    return [row for row in goal_rows(found) if row[0] == what]


def test_every_goal_has_a_row_though_nothing_was_measured() -> None:
    rows = goal_rows([])
    assert len(rows) == 1 + len(TABLE)
    assert {row[4] for row in rows[1:]} == {"not measured"}


def test_a_goal_is_reached_or_missed_by_what_the_record_says() -> None:
    ratios = [compared(PEER, OURS, "small-pull-torch")]
    found = Kept("transport", {**record(), **kept(Found([OURS], ratios, ""))})
    [row] = rows_of([found], "a pull of 4 KiB")[:1]
    assert row[1:] == [
        *("torch RPC", "at least 8 times", "2.00 times", "missed"),
        "torch RPC / paceline",
    ]
    busy = Kept("transport", {**found.record, "busy_share": 0.9})
    assert rows_of([busy], "a pull of 4 KiB")[0][4] == "missed, a hint"


def test_of_many_ratios_of_one_goal_the_worst_counts() -> None:
    lost = [judged(OURS, "codec", 0.001 * n) for n in range(8)]
    some = Kept("codecs", {**record(), **kept(Found([OURS], lost[:3], ""))})
    assert [row[4] for row in rows_of([some], "AUC lost to a codec")] == [
        *("reached", "reached", "reached"),
    ]
    many = Kept("codecs", {**record(), **kept(Found([OURS], lost, ""))})
    [row] = rows_of([many], "AUC lost to a codec")
    assert row[3:] == ["0.0070 AUC", "missed", "the worst of 8: paceline / pull"]


def test_a_table_has_a_head() -> None:
    assert markdown_table([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.slow
def test_the_page_and_its_pictures_are_written(tmp_path: Path) -> None:
    records, out = tmp_path / "records", tmp_path / "docs"
    records.mkdir()
    flags = ["page", "--records", str(records), "--out", str(out)]
    assert main(flags) == 1
    (records / "dense-20260101-000000.json").write_text(json.dumps(record()))
    assert main(flags) == 0
    assert "images/bench-dense.svg" in (out / "benchmarks-results.md").read_text()
    assert (out / "images" / "bench-dense.svg").read_bytes().startswith(b"<?xml")
