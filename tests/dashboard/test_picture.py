"""What is shown of a job: who is waited for first, and never more than can be looked at."""

from typing import Any

import msgspec
import pytest

from paceline.dashboard.picture import (
    MOST_CURVES,
    MOST_METRICS,
    MOST_OWN,
    MOST_ROLES,
    Picture,
)
from paceline.messages.waits import Wait
from paceline.messages.watching import JobStatus, ProcessStatus
from tests.watch.test_progress import status


def trainer(n: int, clock: int = 5, wait: Wait | None = None) -> ProcessStatus:
    state = "joined" if wait is None else "waiting"
    name = f"trainer-{n}"
    return ProcessStatus(
        "trainer", name, 1, 100 + n, "host", "", state, clock, 64 * n, wait
    )


def standing(*processes: ProcessStatus, pace: str = "sync") -> JobStatus:
    return msgspec.structs.replace(status(10), processes=processes, pace=pace)


def shown(job: JobStatus) -> dict[str, Any]:
    picture = Picture("job")
    picture.note_status(job, 1.0)
    return picture.now(1.0)


def test_who_is_waited_for_is_told_with_since_when() -> None:
    wait = Wait("round", "its pushes are missing", ("trainer-2",), since_s=12.25)

    now = shown(standing(trainer(0, wait=wait), trainer(2)))

    assert now["waits"] == [
        {
            "whom": "trainer-2",
            "by": "trainer-0",
            "kind": "round",
            "reason": "its pushes are missing",
            "since_s": 12.2,
        }
    ]
    assert [role["is_waited_for"] for role in now["roles"]] == [False, True]
    assert now["roles"][0]["wait"]["whom"] == "trainer-2"


def test_of_a_thousand_those_that_tell_something_are_shown() -> None:
    wait = Wait("round", "why", ("trainer-700",), since_s=12.0)
    crowd = [trainer(n, clock=9) for n in range(1000)]
    crowd[10], crowd[700] = trainer(10, clock=2), trainer(700, clock=9)
    crowd[3] = trainer(3, clock=9, wait=wait)

    now = shown(standing(*crowd, pace="ssp:8"))

    names = [role["id"] for role in now["roles"]]
    assert len(names) == MOST_ROLES
    assert {"trainer-700", "trainer-10"} <= set(names)
    assert now["more_roles"] == 1000 - MOST_ROLES
    assert now["clocks"] == {"band": [2, 9, 9, 9, 9], "number": 1000, "bound": 8}


@pytest.mark.parametrize(
    ("pace", "bound"), [("ssp:3", 3), ("sync", None), ("part 0 sync, part 1 async", None)]
)
def test_clocks_are_told_by_name_with_the_bound_of_the_pace(
    pace: str, bound: int | None
) -> None:
    crowd = [trainer(n, clock=n + 1) for n in range(MOST_OWN)]

    clocks = shown(standing(*crowd, pace=pace))["clocks"]

    assert clocks["bound"] == bound
    assert clocks["of"]["trainer-4"] == 5


def test_a_coordinator_that_is_silent_is_seen_to_be() -> None:
    picture = Picture("job")
    picture.note_status(standing(), 1.0)

    assert picture.now(8.5)["head"]["silent_s"] is None
    assert picture.now(8.5, is_silent=True)["head"]["silent_s"] == 7.5


def test_of_many_logged_numbers_the_head_has_some() -> None:
    many = {f"metric {n}": float(n) for n in range(3 * MOST_METRICS)}

    head = shown(msgspec.structs.replace(standing(), metrics=many))["head"]

    assert list(head["metrics"]) == list(many)[:MOST_METRICS]


def test_why_nobody_answers_is_told_until_somebody_does() -> None:
    picture = Picture("job")
    picture.now(1.0)
    picture.note_unheard("nobody is there")

    head = picture.now(4.5, is_silent=True)["head"]
    assert (head["trouble"], head["silent_s"]) == ("nobody is there", 3.5)
    assert head["state"] == "not heard of"

    picture.note_status(standing(), 5.0)
    assert picture.now(5.0)["head"]["trouble"] is None


def test_before_anything_is_heard_nothing_is_made_up() -> None:
    now = Picture("job").now(0.0)

    assert now["head"]["state"] == "not heard of"
    assert now["queue"] is None
    assert not now["roles"]


def events(*told: tuple[float, str, dict[str, Any]]) -> Picture:
    picture = Picture("job")
    for t, event, fields in told:
        picture.note_event({"t": t, "event": event, **fields})
    return picture


def test_numbers_and_the_rate_become_curves_and_pages_are_sent_what_is_new() -> None:
    picture = events(
        (100.0, "progress", {"records": 0}),
        (101.0, "progress", {"records": 500}),
        (101.5, "log", {"numbers": {"loss": 3.0, "bad": None}}),
    )
    known: dict[str, tuple[int, int]] = {}
    assert picture.curves(known) == {
        "records/s": [0, 0, [1.0], [500.0]],
        "loss": [0, 0, [], []],
    }

    picture.note_event({"t": 103.0, "event": "progress", "records": 400})

    assert picture.curves(known) == {"records/s": [0, 1, [3.0], [0.0]]}


def test_an_ended_job_has_its_end_and_waits_for_nobody() -> None:
    picture = events((5.0, "TrainerJoined", {"trainer": "trainer-0"}), (9.0, "closed", {}))
    wait = Wait("round", "why", ("trainer-2",), since_s=12.0)
    picture.note_end({"status": "failed", "reason": "why"}, standing(trainer(0, wait=wait)))

    now = picture.now(100.0)

    assert (now["head"]["state"], now["head"]["reason"]) == ("failed", "why")
    assert (now["waits"], now["roles"], now["head"]["silent_s"]) == ([], [], None)
    assert now["lanes"][0]["spans"] == [[0.0, 4.0, "left", ""]]


def test_a_clock_that_is_set_back_moves_nothing_back() -> None:
    picture = events(
        (100.0, "progress", {"records": 0}), (90.0, "CutCommitted", {"cut": 1})
    )

    assert picture.now(0.0)["marks"] == [[0.0, "cut", "checkpoint 1 is durable"]]


@pytest.mark.parametrize(("pace", "has_backup"), [("sync", False), ("sync:backup=1", True)])
def test_a_pace_that_does_not_wait_is_not_advised_again(
    pace: str, has_backup: bool
) -> None:
    fields = {
        "part": 0,
        "contributions": [{"trainer": "trainer-0"}, {"trainer": "trainer-1"}],
        "came_s": [0.0, 0.5],
    }
    picture = events(*((float(n), "RoundCommitted", fields) for n in range(20)))
    picture.note_status(standing(pace=pace), 1.0)
    assert picture.now(1.0)["straggler"]["has_backup"] is has_backup

    picture.note_event({"t": 21.0, "event": "PaceChanged", "paces": {"0": "async"}})

    now = picture.now(1.0)
    assert (now["straggler"], now["rounds"]) == (None, [])


def test_time_goes_on_while_nothing_happens_until_the_job_is_over() -> None:
    picture = events((100.0, "RunBegun", {}), (110.0, "CutCommitted", {"cut": 1}))
    assert picture.now(0.0, wall_t=500.0)["at_s"] == 10.0

    picture.note_status(standing(), 0.0)
    now = picture.now(0.0, wall_t=150.0)
    assert (now["at_s"], now["head"]["cut_age_s"]) == (50.0, 40)

    picture.note_end({"status": "trained"}, None)
    assert picture.now(0.0, wall_t=900.0)["at_s"] == 10.0


def test_the_rate_has_a_curve_however_much_is_logged() -> None:
    numbers = {f"number-{n}": 1.0 for n in range(2 * MOST_CURVES)}
    picture = events(
        (1.0, "log", {"numbers": numbers}),
        (2.0, "progress", {"records": 0}),
        (3.0, "progress", {"records": 500}),
    )

    curves = picture.curves({})

    assert "records/s" in curves
    assert len(curves) == MOST_CURVES + 1
