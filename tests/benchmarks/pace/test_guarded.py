"""What servers have counted of ages is told in the order of ages."""

from benchmarks.pace.guarded import ages_of


def test_ages_are_told_from_the_youngest_as_shares() -> None:
    counters = {"part-0.age.16-31": 1, "part-0.age.0": 1, "part-0.age.2-3": 2, "old": 9}
    assert ages_of(counters) == "0: 25%, 2-3: 50%, 16-31: 25%"


def test_where_nothing_has_an_age_nothing_is_told() -> None:
    assert ages_of({"duplicates": 3}) == ""
