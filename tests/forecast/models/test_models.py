"""What takes time follows its model, and is drawn from the seed alone."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.forecast.models import (
    Compute,
    Deaths,
    Fixed,
    Lognormal,
    Network,
    Pauses,
    Quantiles,
    Slow,
    Straggler,
    draw_compute,
    draw_pauses,
    parse_bytes,
    parse_compute,
    parse_deaths,
    parse_network,
    parse_pauses,
    parse_seconds,
)
from tests.forecast.models.means import mean_s

MODELS: list[Compute] = [
    Fixed(0.1),
    Lognormal(0.1, 0.3),
    Straggler(0.1, 4, 0.2),
    Slow(0.1, 4, 1),
    Quantiles((0.05, 0.1, 0.3)),
]
seconds = st.floats(1e-6, 1e4)
models = st.one_of(
    st.builds(Fixed, seconds),
    st.builds(Lognormal, seconds, st.floats(0, 3)),
    st.builds(Straggler, seconds, st.floats(1, 100), st.floats(0, 1)),
    st.builds(Slow, seconds, st.floats(1, 100), st.integers(0, 100)),
    st.lists(seconds, min_size=2, max_size=9).map(lambda s: Quantiles(tuple(sorted(s)))),
)


@given(models)
def test_a_model_is_read_as_it_is_written(model: Compute) -> None:
    again = parse_compute("--compute", str(model))
    assert type(again) is type(model)
    assert str(again) == str(model)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_draws_have_the_mean_that_the_model_says(model: Compute) -> None:
    draws = [draw_compute(model, trainer, Random(trainer)) for trainer in range(4)]
    drawn = [draw() for draw in draws for _ in range(5000)]
    assert math.isclose(sum(drawn) / len(drawn), mean_s(model, 4), rel_tol=0.02)


def test_only_the_first_trainers_are_slow() -> None:
    model = Slow(0.1, 4, 2)
    drawn = [draw_compute(model, trainer, Random(0))() for trainer in range(4)]
    assert drawn == [0.4, 0.4, 0.1, 0.1]


def test_a_measured_batch_lies_between_the_least_and_the_most() -> None:
    draw = draw_compute(Quantiles((0.1, 0.2, 0.9)), 0, Random(0))
    drawn = sorted(draw() for _ in range(1001))
    assert 0.1 <= drawn[0] < drawn[-1] <= 0.9
    assert drawn[500] == pytest.approx(0.2, abs=0.02)


def test_pauses_are_as_frequent_and_as_long_as_the_model_says() -> None:
    draw = draw_pauses(Pauses(0.1, 5.0), Random(0))
    drawn = [draw() for _ in range(20_000)]
    pauses = [pause for pause in drawn if pause > 0]
    assert len(pauses) / len(drawn) == pytest.approx(0.1, rel=0.05)
    assert sum(pauses) / len(pauses) == pytest.approx(5.0, rel=0.05)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("norml:1,2", "expected fixed, lognormal, straggler, slow or quantiles"),
        ("lognormal:0.1", "expected lognormal:MEDIAN,SIGMA, got 'lognormal:0.1'"),
        ("fixed:soon", "expected a duration"),
        ("fixed:0", "fixed: expected seconds > 0, got 0.0"),
        ("straggler:1,0.5,0.1", "factor: expected 1 or more, got 0.5"),
        ("straggler:1,4,1.5", "probability: expected 0 to 1, got 1.5"),
        ("slow:1,4,0.5", "expected a whole number of trainers"),
        ("quantiles:0.2,0.1", "from the least to the most"),
        ("quantiles:0.2", "two or more"),
    ],
)
def test_a_model_that_cannot_be_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_compute("--compute", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", 0.1),
        ("100us", 1e-4),
        ("5ms", 5e-3),
        ("2m", 120),
        ("10h", 36_000),
        ("1d", 86_400),
    ],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, expected: float) -> None:
    assert parse_seconds("--apply", text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4000", 4000), ("4MB", 4_000_000), ("1KiB", 1024), ("1.5GB", 15e8)],
)
def test_bytes_have_a_unit_or_none(text: str, expected: float) -> None:
    assert parse_bytes("--parameters", text) == expected


@pytest.mark.parametrize("text", ["4 apples", "", "GB", "1e", "nan"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--parameters"):
        parse_bytes("--parameters", text)


def test_pairs_are_read_with_their_units() -> None:
    assert parse_network("--network", "2ms,10Gbit/s") == Network(2e-3, 1.25e9)
    assert parse_network("--network", "0,1GB") == Network(0.0, 1e9)
    assert parse_deaths("--deaths", "10h,30s") == Deaths(36_000, 30)
    assert parse_pauses("--pause", "0.01,5s") == Pauses(0.01, 5)


@pytest.mark.parametrize("parse", [parse_network, parse_deaths, parse_pauses])
def test_half_a_pair_is_refused(parse: object) -> None:
    with pytest.raises(UsageError, match="like"):
        parse("--it", "1")  # type: ignore[operator]


def test_two_trainers_do_not_have_the_same_luck() -> None:
    model = Lognormal(0.1, 0.3)
    one, other = (draw_compute(model, n, Random(f"0 {n}")) for n in range(2))
    assert all(one() != other() for _ in range(9))
