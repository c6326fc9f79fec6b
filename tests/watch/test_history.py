"""Events as curves and marks."""

import json

import pytest

from paceline.watch.history import (
    Logged,
    Mark,
    Progress,
    own_records,
    rates,
    read_history,
    smoothed,
)


def lines(*events: dict[str, object]) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_progress_numbers_and_deaths_are_read() -> None:
    history = read_history(
        lines(
            {"t": 100.0, "event": "TrainerJoined", "trainer": "trainer-0"},
            {"t": 101.0, "event": "progress", "records": 5, "trainers": {"trainer-0": 5}},
            {"t": 101.5, "event": "log", "trainer": "trainer-0", "numbers": {"loss": 0.5}},
            {"t": 102.0, "event": "TrainerLost", "trainer": "trainer-0", "reason": "x"},
            {"t": 103.0, "event": "TrainerJoined", "trainer": "trainer-0"},
        )
    )

    assert history.progress == [Progress(1.0, 5, {"trainer-0": 5})]
    assert history.metrics == {"loss": {"trainer-0": [Logged(5, 0.5)]}}
    assert history.marks == [
        Mark(2.0, 5, "died", "trainer-0"),
        Mark(3.0, 5, "came back", "trainer-0"),
    ]


def test_seconds_are_those_of_the_job_when_its_first_lines_are_gone() -> None:
    history = read_history(
        lines(
            {"t": 300.0, "event": "EventsMoved", "to": "events.old.jsonl", "began": 100.0},
            {"t": 301.0, "event": "progress", "records": 5, "trainers": {}},
            {"t": 400.0, "event": "EventsMoved", "to": "events.old.jsonl", "began": 100.0},
            {"t": 401.0, "event": "progress", "records": 6, "trainers": {}},
        )
    )
    assert [progress.seconds for progress in history.progress] == [201.0, 301.0]


def test_what_cannot_be_read_is_left_out() -> None:
    good = lines({"t": 1.0, "event": "progress", "records": 5})
    broken = [b'{"t": 2.0, "ev', b"[]", b'{"event": "progress"}', b""]

    assert read_history([*broken, *good]).progress == [Progress(0.0, 5, {})]


def test_numbers_that_are_not_finite_leave_a_gap() -> None:
    event = {"t": 1.0, "event": "log", "trainer": "t", "records": 3}
    history = read_history(
        lines({**event, "numbers": {"loss": None}}, {**event, "numbers": {"loss": 1.0}})
    )

    assert history.metrics == {"loss": {"t": [Logged(3, 1.0)]}}


def test_a_return_to_a_cut_is_no_negative_speed() -> None:
    progress = [Progress(t, n, {}) for t, n in ((0.0, 0), (1.0, 100), (3.0, 40), (3.0, 50))]

    assert rates(progress) == [(1.0, 100.0), (3.0, 0.0)]


def test_smoothing_keeps_a_straight_line_straight_and_orders_the_points() -> None:
    points = [Logged(n, 2.0) for n in (30, 10, 20)] + [Logged(40, 2.0)] * 50

    curve = smoothed(points)

    assert [p.records for p in curve] == sorted(p.records for p in points)
    assert [p.value for p in curve] == pytest.approx([2.0] * len(points))


def test_smoothing_takes_the_mean_around_each_point() -> None:
    points = [Logged(n, float(n % 2)) for n in range(100)]

    curve = smoothed(points, share=0.2)

    assert all(0.4 < p.value < 0.6 for p in curve)


def test_a_trainer_that_is_gone_keeps_its_count() -> None:
    progress = [
        Progress(0.0, 1, {"a": 1}),
        Progress(1.0, 5, {"a": 2, "b": 3}),
        Progress(2.0, 6, {"b": 4}),
    ]

    assert own_records(progress) == {"a": [1, 2, 2], "b": [0, 3, 4]}


def begun(t: float) -> dict[str, object]:
    return {"t": t, "event": "RunBegun", "run": "r"}


def leased(t: float, stage: int, records: int = 0) -> dict[str, object]:
    lease = {"key": [stage, 0, 0], "records": records}
    return {"t": t, "event": "LeaseGranted", "lease": lease, "trainer": "a"}


def moved(t: float, records: int, trained_s: float, **own: int) -> dict[str, object]:
    fields = {"records": records, "trained_s": trained_s, "trainers": own}
    return {"t": t, "event": "progress", **fields}


def test_a_resumed_run_goes_on_where_the_last_one_ended() -> None:
    history = read_history(
        lines(
            begun(100.0),
            leased(103.0, 0),
            moved(105.0, 200, 2.0, a=120, b=80),
            {"t": 106.0, "event": "closed", "records": 210, "trained_s": 2.5},
            begun(9000.0),
            leased(9004.0, 0, records=210),
            moved(9006.0, 410, 1.5, a=100, c=100),
        )
    )
    assert [p.seconds for p in history.progress] == [3.0, 5.0, 10.0, 12.0]
    assert [p.records for p in history.progress] == [0, 200, 210, 410]
    assert history.progress[-1].trainers == {"a": 220, "b": 80, "c": 100}
    assert history.marks == [Mark(6.0, 210, "resumed", "resumed")]
    assert history.records_per_second() == pytest.approx(410 / 4.0)


def test_an_evaluation_is_no_slowness_of_the_loop_behind_it() -> None:
    history = read_history(
        lines(
            leased(1.0, 0),
            moved(2.0, 100, 1.0),
            leased(2.5, 1, records=150),
            leased(9.0, 2, records=150),
            moved(10.0, 250, 2.5),
        )
    )
    assert rates(history.progress) == [
        (1.0, 100.0),
        (1.5, 100.0),
        (8.0, 0.0),
        (9.0, 100.0),
    ]


def test_a_change_of_pace_and_of_trainers_is_marked() -> None:
    history = read_history(
        lines(
            moved(1.0, 100, 1.0),
            {"t": 2.0, "event": "PaceChanged", "paces": {"0": "ssp:3", "1": "ssp:3"}},
            {"t": 3.0, "event": "Scaled", "trainers": 2},
            {"t": 4.0, "event": "TrainerLeft", "trainer": "a"},
            {"t": 5.0, "event": "TrainerJoined", "trainer": "a"},
        )
    )
    assert history.marks == [
        Mark(1.0, 100, "pace", "ssp:3"),
        Mark(2.0, 100, "scaled", "2 trainers"),
    ]


def test_a_log_of_an_older_version_tells_no_rate() -> None:
    history = read_history(
        lines({"t": 1.0, "event": "progress", "records": 5, "trainers": {}})
    )
    assert history.records_per_second() is None
