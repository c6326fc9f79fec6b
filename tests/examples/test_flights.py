"""The flights' encoding, split and score, on made-up flights."""

import numpy as np
import pytest

from examples.ctr import flights


def flight(number: int, **changes: str) -> dict[str, str]:
    return {
        "year": "2013",
        "month": "1",
        "day": "5",
        "dep_delay": "0",
        "carrier": "UA",
        "flight": str(number),
        "tailnum": f"N{number}",
        "origin": "EWR",
        "dest": "IAH",
        "hour": "5",
        "distance": str(100 * number),
        "time_hour": "2013-01-05T10:00:00Z",
    } | changes


def weather(**changes: str) -> dict[str, str]:
    return {
        "origin": "EWR",
        "time_hour": "2013-01-05T10:00:00Z",
        "temp": "39.02",
        "wind_speed": "10.36",
        "precip": "0",
        "visib": "10",
    } | changes


def test_a_cancelled_flight_is_no_record() -> None:
    made, rows = flights.encode(
        [flight(1), flight(2, dep_delay="NA"), flight(3)], [weather()]
    )
    assert rows.tolist() == [0, 2]
    assert made.fields.shape == (2, 14)
    assert made.fields.dtype == np.int64


def test_late_is_more_than_fifteen_minutes() -> None:
    delays = ["-3", "15", "16"]
    made, _ = flights.encode([flight(1, dep_delay=d) for d in delays], [weather()])
    assert made.labels.tolist() == [0, 0, 1]


def test_no_two_fields_share_an_id() -> None:
    made, _ = flights.encode([flight(n) for n in range(1, 40)], [weather()])
    seen = [set(column.tolist()) for column in made.fields.T]
    assert len(set().union(*seen)) == sum(len(ids) for ids in seen)
    assert made.fields.min() == 0


def test_unknown_weather_has_a_code_of_its_own() -> None:
    known, elsewhere = flight(1), flight(2, origin="JFK")
    hours = [weather(), weather(origin="LGA", temp="50")]
    made, _ = flights.encode([known, elsewhere], hours)
    temp = flights.FIELDS.index("temp")
    assert made.fields[0, temp] != made.fields[1, temp]


def test_deciles_hold_a_tenth_each() -> None:
    codes = flights.deciles([str(number) for number in range(100)] + ["NA"])
    assert np.bincount(codes).tolist() == [10] * 10 + [1]


def test_a_fifth_of_the_rows_is_for_testing_and_stays_so() -> None:
    chosen = flights.is_test_row(np.arange(100_000))
    assert 0.195 < chosen.mean() < 0.205
    assert np.array_equal(flights.is_test_row(np.arange(500, 600)), chosen[500:600])


@pytest.mark.parametrize("levels", [5, 1_000_000])
def test_auc_is_the_share_of_ordered_pairs_with_and_without_ties(levels: int) -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 400).astype(np.float32)
    scores = draw.integers(0, levels, 400).astype(np.float32)
    late, punctual = scores[labels > 0][:, None], scores[labels == 0][None, :]
    ordered = (late > punctual).mean() + 0.5 * (late == punctual).mean()
    assert flights.auc(labels, scores) == pytest.approx(ordered)
