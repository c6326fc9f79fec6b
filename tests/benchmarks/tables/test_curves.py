"""Where the pictures of a benchmark's curves may lie."""

import argparse
from pathlib import Path

import pytest

from benchmarks.tables.curves import picture_at


def test_an_ending_that_is_not_written_is_refused_before_anything_is_run() -> None:
    assert picture_at("a/curves.svg") == Path("a/curves.svg")
    with pytest.raises(argparse.ArgumentTypeError, match=r"\.png or \.svg, got curves$"):
        picture_at("curves")
