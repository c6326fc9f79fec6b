"""A cut is of one moment, and returning to it brings exactly that moment back."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    RowOptimizer,
    RowWiseAdagrad,
    Uniform,
)
from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.server import (
    CutReport,
    FileEntry,
    Forget,
    MarkEntry,
    MarksReport,
    Restore,
    SendMarks,
    Snapshot,
)
from paceline.messages.shared import OptimizerSpec
from paceline.server import control as service_control
from paceline.server.snapshots import read_share
from paceline.store.blobs.blobs import BlobStore
from tests.server.conftest import Array, Rows, Server, make_plan, task_key, verdict, window

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}
PLAN = make_plan(
    optimizer=OptimizerSpec("Adam", ({"lr": 0.1},)), rows=Adagrad(), init=Uniform(0.1)
)


def _take_cut(server: Server, cut: int) -> FileEntry:
    order = Snapshot(cut=cut, folder=f"cut-{cut}", rounds={})
    report = server.coordinator.order(
        order, until=lambda r: _cut_report(r.answers) is not None
    )
    answer = _cut_report(report.answers)
    assert answer is not None
    assert answer.cut == cut
    assert answer.error is None
    server.coordinator.order(until=lambda report: not report.answers)
    (entry,) = answer.files
    return entry


def _cut_report(answers: tuple[object, ...]) -> CutReport | None:
    return next((answer for answer in answers if isinstance(answer, CutReport)), None)


def _restore(entries: tuple[FileEntry, ...], timeline: int = 1, cut: int = 1) -> Restore:
    return Restore(
        timeline=timeline,
        cut=cut,
        folder=f"cut-{cut}",
        plans=(PLAN,),
        files=entries,
        rounds={},
    )


def _return_to(server: Server, order: Restore) -> None:
    server.plan = PLAN
    server.timeline = order.timeline
    server.coordinator.order(
        order, until=lambda report: report.ready and report.timeline == order.timeline
    )


def _train(server: Server, first: int, last: int) -> None:
    for batch in range(first, last + 1):
        random = np.random.default_rng(batch)
        blocks = {0: random.normal(size=6), 1: random.normal(size=4)}
        rows = Rows([batch % 3, 7], random.normal(size=(2, 2)).astype(np.float32))
        pushed = server.push(batch + 1, window(batch), blocks=blocks, rows=rows)
        assert verdict(pushed) == "applied"


def _values(server: Server) -> list[Array]:
    found = server.pull()
    return [found[0], found[1], server.pull_rows([0, 1, 2, 7, 8])]


def _assert_equal(one: list[Array], other: list[Array]) -> None:
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


def test_a_cut_taken_while_pushes_arrive_is_what_its_marks_say(
    make_server: MakeServer, store: BlobStore
) -> None:
    server = make_server(plan=make_plan())
    stopping = threading.Event()

    def push_on() -> None:
        batch = 0
        while not stopping.is_set():
            rows = Rows([1, 2, 3, 4, 5, 6], np.ones((6, 2)))
            server.push(batch + 1, window(batch), blocks=ONES, rows=rows)
            batch += 1

    thread = threading.Thread(target=push_on)
    thread.start()
    try:
        entries = [_take_cut(server, cut) for cut in range(1, 4)]
    finally:
        stopping.set()
        thread.join()
    for cut, entry in enumerate(entries, start=1):
        order = _restore((entry,), cut=cut)
        share = read_share(store, order, "server-0", range(5))
        counts = {marks.get(task_key(), -1) + 1 for marks in share.marks.values()}
        assert len(counts) == 1, "all slots are of one moment"
        (count,) = counts
        for slot in (0, 1):
            assert set(share.slots[slot]["values"].tolist()) == {-float(count)}
        for slot in (2, 3, 4):
            rows = share.slots[slot]["table/user/values"].flatten().tolist()
            assert set(rows) <= {-float(count)}
        assert share.versions == {0: count}


def test_pushes_go_on_while_a_cut_is_written_and_are_not_in_it(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 3)
    at_cut = _values(server)
    write, may_write = service_control.write_share, threading.Event()

    def write_late(*arguments: Any) -> FileEntry:
        assert may_write.wait(60)
        return write(*arguments)

    monkeypatch.setattr(service_control, "write_share", write_late)
    order = Snapshot(cut=1, folder="cut-1", rounds={})
    report = server.coordinator.order(order, until=lambda r: r.pinned_cut == 1)
    assert not report.answers, "nothing is written yet"
    _train(server, 4, 6)
    beyond = _values(server)
    second = Snapshot(cut=2, folder="cut-2", rounds={})
    report = server.coordinator.order(second, until=lambda r: bool(r.answers))
    refused = _cut_report(report.answers)
    assert refused is not None
    assert "still writing its share of cut 1" in str(refused.error)
    may_write.set()
    wanted = server.coordinator.order(
        until=lambda r: any(a.files for a in r.answers if isinstance(a, CutReport))
    )
    (entry,) = next(a.files for a in wanted.answers if isinstance(a, CutReport) and a.files)
    server.coordinator.order(until=lambda report: not report.answers)
    _return_to(server, _restore((entry,)))
    _assert_equal(_values(server), at_cut)
    _train(server, 4, 6)
    _assert_equal(_values(server), beyond)


def test_returning_to_a_cut_brings_everything_back(make_server: MakeServer) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 3)
    at_cut = _values(server)
    entry = _take_cut(server, 1)
    _train(server, 4, 6)
    beyond = _values(server)
    _return_to(server, _restore((entry,)))
    _assert_equal(_values(server), at_cut)
    assert server.version() == 4
    assert verdict(server.push(1, window(3), blocks=ONES)) == "duplicate"
    _train(server, 4, 6)
    _assert_equal(_values(server), beyond)


def test_a_fresh_server_goes_on_from_the_file_of_its_forerunner(
    make_server: MakeServer,
) -> None:
    forerunner = make_server(plan=PLAN)
    _train(forerunner, 0, 3)
    entry = _take_cut(forerunner, 1)
    server = make_server()
    _return_to(server, _restore((entry,)))
    _assert_equal(_values(server), _values(forerunner))
    order = SendMarks()
    report = server.coordinator.order(order, until=lambda report: bool(report.answers))
    assert report.answers == (
        MarksReport(timeline=1, has_slots=True, marks=(MarkEntry(task_key(), (3,)),)),
    )


@pytest.mark.parametrize(
    "rows",
    [SGD(lr=0.1), SGD(lr=0.1, momentum=0.9), RowWiseAdagrad(), Adam(), FTRL(l1=0.01)],
)
def test_rows_go_on_from_a_file_to_the_bit(
    make_server: MakeServer, store: BlobStore, rows: RowOptimizer
) -> None:
    plan = make_plan(rows=rows, init=Uniform(0.1))
    forerunner = make_server(plan=plan)
    _train(forerunner, 0, 3)
    order = msgspec.structs.replace(_restore((_take_cut(forerunner, 1),)), plans=(plan,))
    server = make_server()
    server.plan, server.timeline = plan, order.timeline
    server.coordinator.order(order, until=lambda r: r.ready and r.timeline == 1)
    for one in (forerunner, server):
        _train(one, 4, 6)
    _assert_equal(_values(server), _values(forerunner))
    shares = [
        read_share(
            store, _restore((_take_cut(one, 2 + i),), cut=2 + i), "server-0", (2, 3, 4)
        )
        for i, one in enumerate((forerunner, server))
    ]
    for slot in (2, 3, 4):
        first, second = (share.slots[slot] for share in shares)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


def test_slots_are_found_in_the_files_of_others(
    make_server: MakeServer, store: BlobStore
) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 1)
    entry = _take_cut(server, 1)
    share = read_share(store, _restore((entry,)), "server-9", (0, 3))
    assert sorted(share.slots) == [0, 3]
    assert share.marks[3] == {task_key(): 1}


def test_a_slot_that_is_in_no_file_is_named(
    make_server: MakeServer, store: BlobStore
) -> None:
    entry = _take_cut(make_server(plan=PLAN), 1)
    with pytest.raises(CheckpointCorrupt, match=r"slots \[8\] in one of .*server-0"):
        read_share(store, _restore((entry,)), "server-0", (0, 8))


def test_a_damaged_file_is_not_loaded_and_the_coordinator_is_told(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 1)
    entry = _take_cut(server, 1)
    damaged = FileEntry(entry.name, entry.bytes, "0" * 16)
    report = server.coordinator.order(
        _restore((damaged,)), until=lambda r: r.unreadable is not None
    )
    assert (report.ready, report.timeline) == (False, 1)
    assert f"{entry.name}: expected xxh3 {'0' * 16}" in str(report.unreadable)
    assert "cannot return to cut 1; the coordinator is told" in caplog.text
    again = server.coordinator.order(until=lambda r: r is not report)
    assert again.unreadable == report.unreadable, "it is said until the next order"
    server.timeline = 1
    assert verdict(server.push(1, window(0), blocks=ONES)) == "not_ready"
    _return_to(server, _restore((entry,), timeline=2))
    assert server.version() == 2
    healed = server.coordinator.order(until=lambda r: r.ready)
    assert healed.unreadable is None


def test_storage_that_fails_is_tried_again_before_the_coordinator_is_told(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(plan=PLAN)
    entry = _take_cut(server, 1)
    reads = []

    def fail(*arguments: Any) -> Any:
        reads.append(arguments)
        raise StoreError("permission denied")

    monkeypatch.setattr(service_control, "read_share", fail)
    monkeypatch.setattr(service_control, "MOST_READS", 3)
    report = server.coordinator.order(
        _restore((entry,)), until=lambda r: r.unreadable is not None
    )
    assert report.unreadable == "permission denied"
    assert len(reads) == 3


def test_a_return_without_a_cut_starts_empty(make_server: MakeServer) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 1)
    order = Restore(timeline=1, cut=0, folder=None, plans=(), files=(), rounds={})
    _return_to(server, order)
    assert verdict(server.push(1, window(0), blocks=ONES)) == "not_ready"


def test_a_share_that_cannot_be_written_is_reported(
    make_server: MakeServer, store: BlobStore, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(plan=PLAN)
    store.folder("cut-1").write("server-0.safetensors", [b"taken"])
    order = Snapshot(cut=1, folder="cut-1", rounds={})
    report = server.coordinator.order(order, until=lambda report: bool(report.answers))
    answer = _cut_report(report.answers)
    assert answer is not None
    assert "the name is taken" in str(answer.error)
    assert "could not write its share" in caplog.text


def test_marks_that_a_cut_makes_superfluous_are_forgotten(make_server: MakeServer) -> None:
    server = make_server(plan=PLAN)
    _train(server, 0, 1)
    forget = Forget(cut=3, stage=0, epoch=0, below=1, kept=())
    server.coordinator.order(forget, until=lambda report: report.forgotten_cut == 3)
    report = server.coordinator.order(SendMarks(), until=lambda r: bool(r.answers))
    assert report.answers == (MarksReport(timeline=0, has_slots=True, marks=()),)
