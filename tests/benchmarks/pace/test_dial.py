"""Experiments are kept, drawn and put into their place on a page."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.pace.dial.drawing import draw
from benchmarks.pace.dial.experiments import EXPERIMENTS, PAGE
from benchmarks.pace.dial.pasted import pasted
from benchmarks.pace.dial.table import Experiment, Table, doubts_of, told

FOUND = Table(
    "bound",
    "A title",
    "A setting",
    [["", "seconds"], ["sync", "1"]],
    {"a, one rate": {"1": 1.0, "2": math.inf}, "b, best rate": {"1": 2.0, "2": 3.0}},
    "trainers",
    "s",
    ("it is small",),
)


def test_a_page_has_the_table_between_its_marks_and_all_else_as_it_was() -> None:
    page = "before\n<!-- dial: bound -->\nold\n<!-- dial: end -->\nbehind\n"
    once = pasted(page, FOUND, seeds=3)
    assert once.startswith("before\n<!-- dial: bound -->\nA setting; medians of 3 seeds.")
    assert once.endswith("To be doubted: it is small.\n<!-- dial: end -->\nbehind\n")
    assert "old" not in once
    assert "| sync | 1 |" in once
    assert pasted(once, FOUND, seeds=3) == once


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(
        ValueError, match="expected <!-- dial: bound --> and <!-- dial: end"
    ):
        pasted("nothing", FOUND, seeds=1)


def test_the_page_has_a_place_for_every_experiment_and_its_picture() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        assert f"<!-- dial: {name} -->" in text
        assert (PAGE.parent / "images" / f"dial-{name}.svg").exists()


def test_what_never_came_is_null_where_it_is_kept_and_said_where_it_is_read() -> None:
    kept = json.loads(json.dumps(FOUND.record(), allow_nan=False))
    assert kept["values"]["a, one rate"] == {"1": 1.0, "2": None}
    assert (told(math.inf), told(1234.5)) == ("never", "1,234")


def test_a_best_rate_at_an_end_of_the_grid_is_told() -> None:
    inside = [("sync", 0.1, True), ("async", 0.2, False)]
    assert doubts_of(inside) == ("async: the best rate, 0.2, is at an end of the grid",)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_the_same_numbers_make_the_same_picture(
    experiment: Experiment, tmp_path: Path
) -> None:
    values = {"a, one rate": {"1": 1.0, "2": 2.5}, "b, best rate": {"1": 2.0, "2": 3.0}}
    table = FOUND._replace(values=values)
    for name in ("first", "second"):
        draw(table, experiment.picture, tmp_path / f"{name}.svg")
    drawn = [(tmp_path / f"{name}.svg").read_bytes() for name in ("first", "second")]
    assert drawn[0] == drawn[1]
