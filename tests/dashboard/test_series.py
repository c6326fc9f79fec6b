"""Numbers over time: bounded, in order, and nothing that stands out is lost."""

from hypothesis import given
from hypothesis import strategies as st

from paceline.dashboard.series import Series

FINITE = st.floats(-1e6, 1e6)


@given(st.lists(FINITE, min_size=1, max_size=300))
def test_least_and_most_stay_whatever_is_left_out(values: list[float]) -> None:
    series = Series(most=16)
    for n, value in enumerate(values):
        series.add(float(n), value)
    points = series.since(0, 0) if len(values) <= 16 else series.since(-1, 0)

    assert len(series) <= 16
    assert points.seconds == sorted(points.seconds)
    assert (min(points.values), max(points.values)) == (min(values), max(values))


@given(st.lists(st.lists(FINITE, max_size=9), max_size=20))
def test_who_is_sent_what_is_new_has_all_of_it(parts: list[list[float]]) -> None:
    series, seconds = Series(most=16), 0.0
    halvings, known = 0, list[float]()
    for part in parts:
        for value in part:
            series.add(seconds, value)
            seconds += 1.0
        news = series.since(halvings, len(known))
        known = [*known[: news.first], *news.values]
        halvings = news.halvings

    assert known == series.since(-1, 0).values


def test_what_is_logged_at_about_the_same_time_is_one_point() -> None:
    series = Series(smoothed_s=0.25)
    for seconds, value in ((0.0, 1.0), (0.1, 3.0), (0.3, 5.0)):
        series.add(seconds, value)
    assert series.since(0, 0)[2:] == ([0.0], [2.0])

    series.complete()

    assert series.since(0, 1)[2:] == ([0.3], [5.0])
