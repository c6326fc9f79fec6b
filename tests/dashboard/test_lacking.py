"""A panel that is empty for good says why; one that may still be filled says nothing."""

from typing import Any

import pytest

from paceline.dashboard.lacking import FAR, FROM_EVENTS, NO_EVENTS
from paceline.dashboard.picture import QUIET_S, Picture
from paceline.messages.watching import JobStatus
from tests.dashboard.test_foreseen import computed
from tests.dashboard.test_picture import standing, trainer

PANELS = {"curves", "lanes", "times", "servers", "foreseen"}
JOINED = {"event": "TrainerJoined", "trainer": "trainer-0"}
SPENT = {"trainer-0": [0.0, 1.0, 0.0, 0.0]}


def told(
    *events: dict[str, Any], status: JobStatus | None = None, is_over: bool = True
) -> dict[str, str]:
    picture = Picture("job")
    for number, event in enumerate(events):
        try:
            picture.note_event({"t": float(number)} | event)
        except KeyError:
            picture.note_strange()
    if is_over:
        picture.note_end({"status": "finished", "records_per_second": 5.0}, status)
    found: dict[str, str] = picture.now(1.0)["lacking"]
    return found


def test_without_events_all_panels_say_so() -> None:
    lacking = told()

    assert lacking.keys() == PANELS
    assert {lacking[panel] for panel in PANELS - {"servers"}} == {NO_EVENTS}
    assert "status.json), which tell servers' load, are missing" in lacking["servers"]


def test_events_of_another_program_are_told_as_such() -> None:
    lacking = told({"what": "a"}, {"what": "b"})

    assert "None of the 2 lines of events.jsonl is an event" in lacking["lanes"]
    assert len({lacking[panel] for panel in PANELS - {"servers"}}) == 1


def test_what_an_older_paceline_has_not_written_is_named() -> None:
    lacking = told(JOINED, {"event": "progress", "records": 0}, status=standing(trainer(0)))

    assert "has 'spent', what trainers' time went into" in lacking["times"]
    assert "tell nothing of servers' load" in lacking["servers"]
    assert "no line 'computed' in" in lacking["foreseen"]
    assert "has no line 'log', and too few lines 'progress'" in lacking["curves"]
    assert "lanes" not in lacking, "there is one"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "no line 'computed'"),
        ([computed(0, 0.1)], "no line 'StageRegistered'"),
        (
            [computed(0, 0.1), {"event": "StageRegistered", "spec": {"batch_size": 2}}],
            "it is not known what trainers' time went into",
        ),
    ],
)
def test_why_there_is_no_forecast_is_what_it_lacks_first(
    more: list[dict[str, Any]], why: str
) -> None:
    assert why in told(JOINED, *more)["foreseen"]


def test_a_run_too_short_to_tell_twice_says_so() -> None:
    lacking = told({"event": "progress", "records": 0, "spent": SPENT})

    assert "ended before trainers had told twice" in lacking["times"]


def test_a_job_that_runs_or_begins_lacks_nothing_yet() -> None:
    picture = Picture("job")
    assert picture.now(1.0)["lacking"] == {}, "it was not asked yet"
    picture.note_event({"t": 100.0} | JOINED)
    picture.note_unheard("the folder holds no job that runs")
    assert picture.now(1.0, wall_t=101.0)["lacking"] == {}, "it begins"
    assert picture.now(1.0, wall_t=101.0 + QUIET_S)["lacking"], "it has died"
    picture.note_status(standing(trainer(0)), 2.0)

    assert picture.now(1.0, wall_t=1e9)["lacking"] == {}


def test_of_a_job_afar_it_is_told_that_its_events_are_not_seen() -> None:
    picture = Picture("job", has_events=False)
    picture.note_status(standing(trainer(0)), 2.0)

    assert picture.now(2.0)["lacking"] == dict.fromkeys(FROM_EVENTS, FAR)
