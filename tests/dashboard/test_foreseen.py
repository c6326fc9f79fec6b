"""A forecast beside what was measured: near it, other paces are compared."""

from typing import Any

from paceline.dashboard.foreseen import (
    KEPT_LINES,
    MOST_TRAINERS,
    MeasuredJob,
    Past,
    foresee,
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


def test_paces_are_compared_where_the_forecast_is_near_what_was_measured() -> None:
    told = foresee(STRAGGLER)

    assert told["agrees"]
    assert (
        told["told"] == "trainer-2 takes 3.0 times as long for a batch as the middle one."
    )
    assert abs(told["rates"][1] / told["rates"][0] - 1) < 0.1
    assert [round(share, 1) for share in told["forecast"]] == [0.5, 0.0, 0.5]
    times = dict(told["paces"])
    assert list(times) == ["sync:backup=1", "ssp:3", "async"]
    # Rounds are nearly three times as many; but what the slow one pushes late is no gain.
    assert 1.5 < times["sync:backup=1"] < 2.1 < times["async"] < 3.0


def test_where_they_differ_nothing_is_said_of_other_paces() -> None:
    told = foresee(STRAGGLER._replace(rate=400.0, shares=(0.2, 0.6, 0.2)))

    assert not told["agrees"]
    assert told["paces"] == []
    assert "most in waiting for servers: 1 % of trainers' time where 60 %" in told["told"]


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

    assert told["agrees"]
    assert told["paces"] == []


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
