"""Counts are those of a trainer's own questions."""

from pathlib import Path

import pytest

from benchmarks.harness.watching import Trip
from benchmarks.scale.scaling import (
    Case,
    Counts,
    count,
    counts_of,
    figures_of,
    ratios_of,
    round_trips,
)


def trip(kind: str, sent_s: float, received_s: float) -> Trip:
    return Trip(kind, "server-0", sent_s, received_s, 1024, 1024, thread=1)


def test_questions_that_are_out_together_are_one_round_trip() -> None:
    together = [trip("Push", 0.0, 2.0), trip("Push", 1.0, 3.0)]
    assert round_trips(together) == 1
    assert round_trips([*together, trip("Tick", 3.0, 4.0)]) == 2
    assert round_trips([]) == 0


def test_a_step_counts_its_own_questions_with_their_replies() -> None:
    step = [trip("Push", 0.0, 1.0), trip("Tick", 1.0, 2.0), trip("Beat", 0.0, 9.0)]
    assert counts_of([step]) == Counts(messages=4, round_trips=2, kib=4.0)


def test_more_bytes_with_more_servers_miss_the_goal() -> None:
    one, two = Case("sync", 1, 1), Case("sync", 2, 1)
    counts = {one: Counts(6, 3, 100.0), two: Counts(12, 3, 200.0)}
    trips, size = ratios_of(figures_of(counts), counts)
    assert (trips.verdict, size.verdict) == ("reached", "missed")


@pytest.mark.slow
def test_two_servers_get_twice_the_messages_and_the_same_bytes(tmp_path: Path) -> None:
    one = count(Case("async", 1, 1), 4, tmp_path / "one")
    two = count(Case("async", 2, 1), 4, tmp_path / "two")
    assert one.kib > 1024 + 2 * 256  # gradients, and values of rows
    assert two.kib == pytest.approx(one.kib, rel=0.05)
    assert two.messages > one.messages
    assert two.round_trips == one.round_trips
