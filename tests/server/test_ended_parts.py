"""What a server keeps of a part that nobody trains any more."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from paceline.messages.server import (
    CutReport,
    EndPart,
    FileEntry,
    MarksReport,
    PartReport,
    Restore,
    SendMarks,
    Snapshot,
)
from paceline.messages.shared import OptimizerSpec, Refusal
from paceline.server.snapshots import read_share
from paceline.store.blobs.blobs import BlobStore
from tests.server.conftest import Server, make_plan, verdict, window

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}
PLAN = make_plan(optimizer=OptimizerSpec("SGD", ({"lr": 1.0, "momentum": 0.5},)))


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    server = make_server(plan=PLAN)
    assert verdict(server.push(1, window(0), blocks=ONES)) == "applied"
    return server


def end(server: Server) -> None:
    server.coordinator.order(EndPart(part=0), until=lambda r: r.parts[0].has_ended)


def marks_of(server: Server) -> MarksReport:
    report = server.coordinator.order(SendMarks(), until=lambda r: bool(r.answers))
    (found,) = report.answers
    assert isinstance(found, MarksReport)
    server.coordinator.order(until=lambda report: not report.answers)
    return found


def cut(server: Server, number: int) -> FileEntry:
    report = server.coordinator.order(
        Snapshot(cut=number, folder=f"cut-{number}", rounds={}),
        until=lambda r: any(isinstance(a, CutReport) for a in r.answers),
    )
    (entry,) = next(a for a in report.answers if isinstance(a, CutReport)).files
    server.coordinator.order(until=lambda report: not report.answers)
    return entry


def restore(entry: FileEntry, number: int, without: tuple[int, ...] = ()) -> Restore:
    plan = msgspec.structs.replace(PLAN, has_ended=True)
    return Restore(
        timeline=1,
        cut=number,
        folder=f"cut-{number}",
        plans=(plan,),
        files=(entry,),
        rounds={},
        without_state=without,
    )


def test_values_stay_and_pushes_are_refused_with_the_reason(server: Server) -> None:
    end(server)
    end(server)
    refused = server.push(2, window(1), blocks=ONES)
    assert isinstance(refused, Refusal)
    assert refused.kind == "mismatch"
    assert "session.unshare for the model of part 0" in refused.text
    assert np.array_equal(server.pull()[0], -np.ones(6))


def test_no_task_waits_for_its_marks(server: Server) -> None:
    assert marks_of(server).has_slots
    end(server)
    assert marks_of(server) == MarksReport(timeline=0, has_slots=False, marks=())


def test_a_cut_has_its_values_and_no_state_of_its_optimizer(
    server: Server, store: BlobStore
) -> None:
    before = cut(server, 1)
    end(server)
    behind = cut(server, 2)
    for entry, number, has_state in ((before, 1, True), (behind, 2, False)):
        share = read_share(store, restore(entry, number), "server-0", range(5))
        assert (len(share.slots[0]) > 1) == has_state
        assert share.slots[0]["values"].tolist() == [-1.0] * 6


@pytest.mark.parametrize("is_before", [True, False])
def test_who_returns_to_a_cut_has_values_that_nobody_trains(
    server: Server, make_server: MakeServer, *, is_before: bool
) -> None:
    if not is_before:
        end(server)
    entry = cut(server, 1)
    fresh = make_server()
    fresh.coordinator.order(
        restore(entry, 1, (0,)), until=lambda r: r.timeline == 1 and r.ready
    )
    fresh.timeline = 1
    assert np.array_equal(fresh.pull()[0], -np.ones(6))
    report = fresh.coordinator.order(until=lambda r: bool(r.parts))
    assert report.parts == {0: PartReport(0, 1, has_ended=True)}
    assert not marks_of(fresh).has_slots
