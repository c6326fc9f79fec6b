"""Durations, as they are typed."""

import pytest

from paceline.cli.options import parse_seconds
from paceline.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60.0),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("10", 10.0),
        ("0", 0.0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_seconds("--x", text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1s2", "nan", "inf"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--x: expected a duration"):
        parse_seconds("--x", text)
