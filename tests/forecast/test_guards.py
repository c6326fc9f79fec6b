"""Guards in a forecast: the same decisions, and what they cost."""

from paceline.config import Async, Guards, Pace
from paceline.forecast.job import Forecast, forecast
from paceline.forecast.models import Lognormal
from paceline.forecast.plan import Plan


def forecast_of(pace: Pace) -> Forecast:
    """Four trainers of one speed, twenty steps each."""
    compute = Lognormal(0.1, 0.3)
    return forecast(
        Plan(trainers=4, steps=20, pace=pace, compute=compute, parameter_bytes=1_000_000)
    )


def test_what_is_never_too_old_changes_nothing() -> None:
    free, guarded = forecast_of(Async()), forecast_of(Async(guards=Guards(drop=1000)))
    assert guarded.too_old == free.too_old == 0
    assert guarded.batches == free.batches


def test_pushes_that_are_too_old_are_counted_and_their_batches_too() -> None:
    dropped = forecast_of(Async(guards=Guards(drop=1)))
    assert 0.1 < dropped.too_old < 1
    assert dropped.batches == 80
    assert dropped.records == 80


def test_batches_of_pushes_that_are_too_old_are_computed_again() -> None:
    again = forecast_of(Async(guards=Guards(drop=1, old="again")))
    assert again.too_old > 0.1
    assert again.batches > 80
    assert again.records == 80
    assert again.useful < 1


def test_a_compensated_push_is_twice_as_large() -> None:
    free = forecast_of(Async())
    with_values = forecast_of(Async(guards=Guards(compensate=0.04)))
    bytes_in = [f.server.bytes_in_per_s * f.seconds for f in (free, with_values)]
    assert bytes_in[1] > 1.7 * bytes_in[0]
