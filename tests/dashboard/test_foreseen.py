"""A forecast beside what was measured: near it, other paces are compared."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

from paceline.dashboard import foreseen
from paceline.dashboard.foreseen import (
    COST_SHARE,
    EVERY_S,
    KEPT_LINES,
    LOOKED_S,
    MOST_COST_S,
    MOST_TRAINERS,
    UNTOLD_EVERY_S,
    Facts,
    ForecastTurns,
    MeasuredJob,
    Past,
    is_too_dear,
)

FAST_S, SLOW_S = 0.03, 0.09


def computed(trainer: int, seconds: float) -> dict[str, Any]:
    event = {"t": 1.0, "event": "computed", "trainer": f"trainer-{trainer}"}
    return event | {"batches": 100, "seconds": [seconds] * 21, "mean_s": seconds}


# Four trainers in lockstep, of which one takes three times as long.
STRAGGLER = MeasuredJob(
    pace="sync",
    trainers=4,
    servers=1,
    batch_size=20,
    pushed_bytes=20,
    rate=4 * 20 / SLOW_S,
    shares=(0.5, 0.0, 0.5),
    computed=(*(computed(n, FAST_S) for n in (0, 1, 3)), computed(2, SLOW_S)),
)


def foresee(job: MeasuredJob, worked_s: Callable[[], float] = lambda: 0.0) -> Facts:
    return foreseen.foresee(job, worked_s)


def test_paces_are_compared_where_the_forecast_is_near_what_was_measured() -> None:
    told = foresee(STRAGGLER)

    assert re.match(r"Forecast 88\d records/s, measured 889: 1 % apart\. ", told["told"])
    assert " trainer-2 takes 3.0 times as long for a batch as the middle" in told["told"]
    assert told["told"].endswith("only training tells):")
    assert abs(told["rates"][1] / told["rates"][0] - 1) < 0.1
    assert [round(share, 1) for share in told["forecast"]] == [0.5, 0.0, 0.5]
    times = dict(told["paces"])
    assert list(times) == ["sync:backup=1", "async"], "ssp:3 brings next to nothing"
    # Rounds are nearly three times as many; but what the slow one pushes late is no gain.
    assert 1.5 < times["sync:backup=1"] < 2.1 < times["async"] < 3.0


def test_where_they_differ_nothing_is_said_of_other_paces() -> None:
    told = foresee(STRAGGLER._replace(rate=400.0, shares=(0.2, 0.6, 0.2)))

    assert told["paces"] == []
    assert " records/s, measured 400: 120 % apart. They differ" in told["told"]
    assert "most in waiting for servers: forecast 1 %, measured 60 %." in told["told"]
    assert told["told"].endswith("so it says nothing of other paces.")


def test_what_cannot_be_forecast_is_told_with_its_reason() -> None:
    crowd = foresee(STRAGGLER._replace(trainers=MOST_TRAINERS + 1))
    parts = foresee(STRAGGLER._replace(pace="diloco:50,fragments=5,overlap=4"))

    assert "are not forecast here" in crowd["told"]
    several = foresee(STRAGGLER._replace(pace="part 0 sync; part 1 async"))
    assert "without fragments" in parts["told"]
    assert "the pace is not one for all" in several["told"]
    assert foresee(STRAGGLER._replace(computed=())) == {}
    assert foresee(STRAGGLER._replace(batch_size=0)) == {}


def test_who_waits_for_nobody_is_told_of_no_other_pace() -> None:
    told = foresee(STRAGGLER._replace(pace="async", rate=2444.0, shares=(1.0, 0.0, 0.0)))

    assert told["told"].endswith(
        "trainer-2 takes 3.0 times as long for a batch as the middle one."
    )
    assert told["paces"] == []


def test_paces_that_bring_little_are_no_advice() -> None:
    even = tuple(computed(n, FAST_S) for n in range(4))
    rate = 4 * 20 / FAST_S
    told = foresee(STRAGGLER._replace(computed=even, rate=rate, shares=(1.0, 0.0, 0.0)))

    assert told["told"].endswith("apart. No other pace brings much more by a forecast.")
    assert told["paces"] == []


def test_slow_rates_are_told_with_two_digits() -> None:
    slow = tuple(computed(n, 100.0) for n in range(4))
    told = foresee(STRAGGLER._replace(computed=slow, rate=0.81, shares=(1.0, 0.0, 0.0)))

    assert told["told"].startswith("Forecast 0.78 records/s, measured 0.81: ")


@pytest.mark.parametrize(
    ("cost_s", "paces"),
    [
        (MOST_COST_S / 4, ["sync:backup=1", "async"]),
        (MOST_COST_S / 3, ["sync:backup=1"]),  # and ssp:3, which brings little
        (MOST_COST_S, []),
    ],
)
def test_what_forecasts_of_one_go_may_cost_is_bounded(
    cost_s: float, paces: list[str]
) -> None:
    asked = itertools.count()  # before each forecast, and after it

    told = foresee(STRAGGLER, lambda: cost_s * ((next(asked) + 1) // 2))

    assert [name for name, _ in told["paces"]] == paces
    assert ("too long: async." in told["told"]) is (len(paces) == 1)


def test_the_next_forecast_is_taken_to_cost_as_much_as_the_dearest() -> None:
    assert not is_too_dear([MOST_COST_S / 2])
    assert is_too_dear([0.1, 0.6 * MOST_COST_S])
    assert not is_too_dear([0.1] * 4)


def test_forecasts_are_made_only_while_somebody_looks() -> None:
    turns = ForecastTurns()
    assert not turns.is_due(100.0, is_over=False)

    turns.note_look(100.0)
    assert turns.is_due(100.0, is_over=False), "the first look asks for one at once"
    turns.note_made(100.2, 0.2, is_told=True, is_over=False)
    assert not turns.is_due(101.0, is_over=False)

    turns.note_look(100.2 + EVERY_S)
    assert turns.is_due(100.2 + EVERY_S, is_over=False)
    assert not turns.is_due(100.3 + EVERY_S + LOOKED_S, is_over=False), "nobody looks now"


def test_what_cannot_be_told_yet_is_soon_looked_at_again() -> None:
    turns = ForecastTurns()
    turns.note_look(100.0)
    turns.note_made(100.0, 0.0, is_told=False, is_over=False)

    assert not turns.is_due(100.0, is_over=False)
    assert turns.is_due(100.0 + UNTOLD_EVERY_S, is_over=False)


def test_dear_forecasts_are_rare() -> None:
    turns = ForecastTurns()
    turns.note_made(0.0, MOST_COST_S, is_told=True, is_over=False)
    for now_s, is_due in (
        (COST_SHARE * MOST_COST_S - 1.0, False),
        (COST_SHARE * MOST_COST_S, True),
    ):
        turns.note_look(now_s)
        assert turns.is_due(now_s, is_over=False) is is_due


def test_a_job_that_is_over_is_forecast_once() -> None:
    turns = ForecastTurns()
    turns.note_made(0.0, 0.1, is_told=True, is_over=False)
    turns.note_look(1.0)
    assert turns.is_due(1.0, is_over=True)

    turns.note_made(1.0, 0.1, is_told=True, is_over=True)
    turns.note_look(1e3)
    assert not turns.is_due(1e3, is_over=True)
    assert turns.is_due(1e3, is_over=False), "it is gone on with"


def test_what_is_kept_of_the_past_is_bounded_and_the_newest() -> None:
    past = Past()
    past.note({"event": "StageRegistered", "spec": {"batch_size": 20}})
    for n in range(100):
        for trainer in range(2 * MOST_TRAINERS):
            past.note(computed(trainer, float(n)))

    everybody = [f"trainer-{n}" for n in range(2 * MOST_TRAINERS)]
    assert past.batch_size == 20
    assert len(past.computed(everybody)) == KEPT_LINES * (MOST_TRAINERS + 1)
    assert [e["mean_s"] for e in past.computed(["trainer-7"])] == [
        float(n) for n in range(100 - KEPT_LINES, 100)
    ]


def test_an_evaluation_and_an_earlier_run_are_no_part_of_the_past() -> None:
    past = Past()
    past.note({"event": "StageRegistered", "spec": {"batch_size": 20}})
    past.note(computed(0, 1.0))
    evaluation = {"batch_size": 1000, "kind": "evaluate"}
    past.note({"event": "StageRegistered", "spec": evaluation})
    assert past.batch_size == 20

    past.note({"event": "RunBegun"})

    assert past.computed(["trainer-0"]) == ()
