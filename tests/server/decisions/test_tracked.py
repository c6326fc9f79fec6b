"""States of tracked objects at a server: one counts, the others may."""

from collections.abc import Callable
from typing import Any

import numpy as np

from paceline.messages.data import AskTracked, KeepTracked, Tracked
from paceline.messages.server import ConfirmTracked, CutReport, Restore, Snapshot
from paceline.messages.shared import Done, Refusal
from paceline.server.decisions.tracked import MOST_KEEPERS, TrackedState, TrackedStates
from tests.server.conftest import INCARNATION, Server, make_plan

MakeServer = Callable[..., Server]


def test_a_state_counts_once_it_is_confirmed_and_those_before_it_go() -> None:
    states = TrackedStates()
    for number in (1, 2, 3):
        states.keep(TrackedState(number, bytes([number])), INCARNATION)
    assert states.confirmed.number == 0
    states.confirm(2)
    assert states.confirmed == TrackedState(2, b"\2")
    assert states.find(1) is None
    assert states.find(2) == TrackedState(2, b"\2")
    assert states.find(3) == TrackedState(3, b"\3"), "it may be confirmed yet"


def test_of_two_trainers_the_one_that_came_first_may_count_last() -> None:
    states = TrackedStates()
    states.keep(TrackedState(1, b"first"), 11)
    states.keep(TrackedState(2, b"second"), 12)
    states.confirm(2)
    states.confirm(1)
    assert states.confirmed.data == b"first"


def test_a_trainer_that_goes_on_before_its_state_is_confirmed_takes_nothing_away() -> None:
    states = TrackedStates()
    states.keep(TrackedState(1, b"told the coordinator"), 11)
    states.keep(TrackedState(2, b"not told yet"), 11)
    states.keep(TrackedState(2, b"not told yet"), 11)
    states.confirm(1)
    assert states.confirmed.number == 1


def test_a_share_is_there_until_an_average_counts() -> None:
    states = TrackedStates()
    states.keep_share(TrackedState(1, b"share"))
    states.keep(TrackedState(2, b"of one trainer"), 11)
    states.confirm(2)
    assert states.find(1) == TrackedState(1, b"share"), "it has not been averaged yet"
    states.confirm(1)
    assert states.confirmed.number == 2, "a share alone is no state"
    states.keep(TrackedState(3, b"of all", is_average=True), 11)
    states.confirm(3)
    assert states.find(1) is None


def test_a_state_that_came_from_one_who_was_given_up_changes_nothing() -> None:
    states = TrackedStates()
    states.keep(TrackedState(1, b"good"), 11)
    states.confirm(1)
    for number in range(100, 100 + 3 * MOST_KEEPERS):
        states.keep(TrackedState(number, b"late"), number)
    assert states.find(1) == TrackedState(1, b"good")
    states.confirm(99)
    assert states.confirmed.data == b"good", "an unknown number confirms nothing"


def ask(server: Server, message: Any, *buffers: Any) -> Any:
    return server.ask(message, buffers)


def test_a_kept_state_goes_into_a_cut_and_comes_back_with_it(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=make_plan())
    who = {"incarnation": INCARNATION, "timeline": 0}
    data = np.frombuffer(b"a scheduler", np.uint8)
    assert ask(server, KeepTracked(**who, number=5), data) == Done()
    assert ask(server, AskTracked(**who, number=5)) == Tracked()
    server.coordinator.order(ConfirmTracked(number=5), until=lambda r: r.tracked == 5)
    entry = snapshot(server)
    ask(server, KeepTracked(**who, number=6), np.frombuffer(b"a later one", np.uint8))
    restore = Restore(
        timeline=1, cut=1, folder="cut-1", plans=(make_plan(),), files=(entry,), rounds={}
    )
    server.timeline = 1
    report = server.coordinator.order(restore, until=lambda r: r.ready and r.timeline == 1)
    assert report.tracked == 5
    now = {"incarnation": INCARNATION, "timeline": 1}
    assert ask(server, AskTracked(**now, number=5)) == Tracked()
    gone = ask(server, AskTracked(**now, number=6))
    assert isinstance(gone, Refusal)
    assert "no state 6" in gone.text


def snapshot(server: Server) -> Any:
    def written(report: Any) -> CutReport | None:
        return next((a for a in report.answers if isinstance(a, CutReport)), None)

    order = Snapshot(cut=1, folder="cut-1", rounds={})
    report = server.coordinator.order(order, until=lambda r: written(r) is not None)
    answer = written(report)
    assert answer is not None
    (entry,) = answer.files
    return entry


def test_a_state_of_another_timeline_is_refused(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan())
    keep = KeepTracked(incarnation=INCARNATION, timeline=4, number=5)
    refused = ask(server, keep, np.zeros(1, np.uint8))
    assert isinstance(refused, Refusal)
    assert refused.kind == "timeline"


def test_a_state_without_its_bytes_is_refused(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan())
    refused = ask(server, KeepTracked(incarnation=INCARNATION, timeline=0, number=5))
    assert isinstance(refused, Refusal)
    assert "expected one buffer" in refused.text
