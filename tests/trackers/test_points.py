"""What events say to a tracker."""

from typing import Any

import msgspec
import pytest

from paceline.trackers.points import Happening, PointReader, ReaderState, TrackedNumber


def progress(t: float, records: int) -> dict[str, Any]:
    stood = {"epoch": 1, "steps": 7, "timeline": 0, "trainers": {"trainer-0": records}}
    return {"t": t, "event": "progress", "records": records, **stood}


def rates(points: list[Any]) -> list[float]:
    return [p.value for p in points if p.name == "paceline/records_per_second"]


def test_numbers_of_the_script_keep_their_name_their_records_and_who_logged_them() -> None:
    numbers = {"loss": 0.5, "accuracy": 1, "undefined": None}
    event = {"t": 3.5, "event": "log", "trainer": "trainer-1", "records": 64}

    assert PointReader().read({**event, "numbers": numbers}) == [
        TrackedNumber(3.5, 64, "loss", 0.5, "trainer-1"),
        TrackedNumber(3.5, 64, "accuracy", 1.0, "trainer-1"),
    ]


def test_records_a_second_are_those_between_two_looks_and_the_last() -> None:
    reader = PointReader()
    assert rates(reader.read(progress(10.0, 100))) == []
    assert rates(reader.read(progress(12.0, 300))) == [100.0]
    assert rates(reader.read({"t": 13.0, "event": "closed", "records": 350})) == [50.0]


def test_a_job_that_is_gone_on_with_has_no_rate_over_the_pause() -> None:
    reader = PointReader()
    begun = {"event": "RunBegun", "t": 1.0}
    assert reader.read(begun) == [Happening(1.0, 0, "the job begins")]
    reader.read(progress(10.0, 100))
    assert reader.read({**begun, "t": 900.0}) == [
        Happening(900.0, 100, "the job is gone on with")
    ]
    assert rates(reader.read(progress(901.0, 200))) == []


def test_whoever_goes_on_with_the_state_reads_as_if_never_interrupted() -> None:
    reader = PointReader()
    reader.read(progress(10.0, 100))
    state = msgspec.json.decode(msgspec.json.encode(reader.state), type=ReaderState)

    assert PointReader(state).read(progress(12.0, 300)) == reader.read(progress(12.0, 300))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            {"event": "TrainerLost", "trainer": "trainer-1", "kind": "exit", "reason": "9"},
            "trainer-1 was lost (exit): 9",
        ),
        ({"event": "ServerJoined", "server": "server-0"}, "server-0 has joined"),
        (
            {"event": "PaceChanged", "paces": {"0": "ssp:3", "1": "ssp:3"}},
            "the pace is ssp:3",
        ),
        ({"event": "Scaled", "trainers": 5}, "5 trainers are wanted"),
        (
            {"event": "TimelineLeft", "reason": "server-0 died"},
            "all return to a checkpoint: server-0 died",
        ),
    ],
)
def test_what_happens_is_told_in_words(event: dict[str, Any], text: str) -> None:
    assert PointReader().read({"t": 1.0, **event}) == [Happening(1.0, 0, text)]


@pytest.mark.parametrize(
    "event", [{}, {"t": "soon", "event": "log"}, {"t": 1.0, "event": "TrainerLost"}]
)
def test_a_strange_line_says_nothing(event: dict[str, Any]) -> None:
    assert PointReader().read(event) == []


@pytest.mark.parametrize("trainer", ["../../x", "trainer-", "server-0", ""])
def test_who_has_no_name_of_a_trainer_has_logged_nothing(trainer: str) -> None:
    event = {"t": 3.5, "event": "log", "trainer": trainer, "records": 64}

    assert PointReader().read({**event, "numbers": {"loss": 0.5}}) == []
