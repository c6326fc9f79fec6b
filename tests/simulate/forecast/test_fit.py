"""How long batches compute is read from what a real run has written."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.errors import UsageError
from paceline.simulate.forecast.fit import fit
from paceline.simulate.forecast.models import mean_s

seconds = st.lists(st.floats(0.001, 10), min_size=2, max_size=21).map(sorted)


def line(trainer: str, batches: int, seconds: list[float]) -> bytes:
    told = {"t": 0.0, "event": "computed", "trainer": trainer, "batches": batches}
    return json.dumps({**told, "seconds": seconds}).encode()


@example([(1, [1.0, 1.0, 1.0, 1.3394410457279553, 3.878332190724787])])  # rounds past it
@given(st.lists(st.tuples(st.integers(1, 99), seconds), min_size=1, max_size=5))
def test_what_is_fitted_lies_within_what_was_measured(
    told: list[tuple[int, list[float]]],
) -> None:
    fitted = fit([line("trainer-0", *one) for one in told], "events.jsonl").compute
    [own] = fitted.trainers
    assert own.seconds[0] >= min(s[0] for _, s in told)
    assert own.seconds[-1] <= max(s[-1] for _, s in told)


def test_trainers_stay_apart() -> None:
    lines = [line("trainer-1", 9, [4.0, 4.0]), line("trainer-0", 9, [1.0, 1.0])]
    fitted = fit(lines, "events.jsonl").compute
    assert [mean_s(own, 1) for own in fitted.trainers] == [1.0, 4.0]
    assert mean_s(fitted, 2) == 2.5


def test_a_line_counts_for_as_many_batches_as_it_is_of() -> None:
    lines = [line("trainer-0", 90, [1.0] * 21), line("trainer-0", 10, [2.0] * 21)]
    [own] = fit(lines, "events.jsonl").compute.trainers
    assert own.seconds.count(1.0) == 18  # of 21: 90 %
    assert mean_s(own, 1) == pytest.approx(1.1, abs=0.05)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"event": "computed", "trainer"',
        b'{"t": 0, "event": "progress", "records": 1}',
        b'{"t": 0, "event": "computed", "trainer": "t", "batches": 1, "seconds": []}',
        b'{"t": 0, "event": "computed", "trainer": "t", "batches": 1, "seconds": [2, 1]}',
    ],
)
def test_lines_that_tell_nothing_are_left_out(broken: bytes) -> None:
    fitted = fit([broken, line("trainer-0", 1, [1.0, 1.0])], "events.jsonl").compute
    assert mean_s(fitted, 1) == 1.0
    with pytest.raises(UsageError, match=r"events\.jsonl does not tell how long"):
        fit([broken], "events.jsonl")
