"""The page of all calls names each public one."""

from pathlib import Path

import pytest

import paceline
import paceline.data

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
OF_PACELINE = sorted(set(paceline.__all__) - {"__version__", "data"})


@pytest.mark.parametrize(
    "name",
    [*OF_PACELINE, *(f"data.{name}" for name in sorted(paceline.data.__all__))],
)
def test_a_public_name_has_its_place(name: str) -> None:
    assert f"::: paceline.{name}\n" in PAGE
