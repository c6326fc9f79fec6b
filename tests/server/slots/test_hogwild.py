"""Pushes of a hogwild part change rows at once; what counts is counted all the same."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from paceline.config import FTRL, SGD, Adagrad, Adam, AdamW, Async, RowOptimizer, Uniform
from paceline.messages.server import (
    CutReport,
    Fence,
    FenceReport,
    MarkEntry,
    Restore,
    ServerReport,
    Snapshot,
)
from paceline.messages.shared import OptimizerSpec, TableSpec
from paceline.params.bundle import Bundle
from paceline.params.guarding import why_not_hogwild
from paceline.params.rows.following import RowStep
from paceline.params.rows.table import TABLE_STEPS, RowTable
from paceline.server.requests.contents import TableGradients
from paceline.server.slots.actions import step_rows
from paceline.server.slots.turns import TableStep
from paceline.server.snapshots import read_share
from paceline.store.blobs.blobs import BlobStore
from tests.server.conftest import Rows, Server, make_plan, task_key, verdict, window

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}
PATIENCE_S = 10.0
HOGWILD = Async(isolation="hogwild")
ROWS = Rows([1], np.ones((1, 2)))


def _run(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _first_pushes(server: Server) -> None:
    """Make state and rows, alone."""
    rows = Rows([1, 2, 3], np.ones((3, 2)))
    assert verdict(server.push(1, window(0), blocks=ONES, rows=rows)) == "applied"


def test_two_pushes_of_rows_run_at_the_same_time(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(plan=make_plan(pace=HOGWILD))
    _first_pushes(server)
    both, step = threading.Barrier(2, timeout=PATIENCE_S), RowTable.step_made

    def meet(*arguments: Any) -> None:
        both.wait()  # breaks unless the other push is in the same place
        step(*arguments)

    monkeypatch.setattr(RowTable, "step_made", meet)
    verdicts: list[str] = []

    def push(trainer: int) -> None:
        pushed = server.push(1, window(0, task=trainer), rows=ROWS, trainer=trainer)
        verdicts.append(verdict(pushed))

    _run(*(threading.Thread(target=push, args=(trainer,)) for trainer in (12, 13)))
    assert verdicts == ["applied", "applied"]
    assert not both.broken


def test_dense_parameters_are_updated_one_push_at_a_time_and_it_is_said(
    make_server: MakeServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="paceline.server"):
        server = make_server(plan=make_plan(pace=HOGWILD))
    said = [one.getMessage() for one in caplog.records if "hogwild" in one.getMessage()]
    assert len(said) == 1
    assert "part 0: isolation=hogwild" in said[0]
    assert "dense parameters are updated one push at a time" in said[0]
    at_it, apply = 0, Bundle.apply

    def alone(*arguments: Any) -> None:
        nonlocal at_it
        at_it += 1
        assert at_it == 1
        apply(*arguments)
        at_it -= 1

    monkeypatch.setattr(Bundle, "apply", alone)

    def train(trainer: int) -> None:
        for number in range(50):
            pushed = window(number, task=trainer)
            blocks = {0: np.ones(6)}
            answer = server.push(number + 1, pushed, blocks=blocks, trainer=trainer)
            assert verdict(answer) == "applied"

    _run(*(threading.Thread(target=train, args=(trainer,)) for trainer in range(20, 24)))
    assert np.array_equal(server.pull()[0], np.full(6, -200.0))


def test_counts_and_marks_are_exact_whatever_meets(make_server: MakeServer) -> None:
    server = make_server(plan=make_plan(pace=HOGWILD))
    trainers, pushes = range(20, 24), 50
    verdicts: list[str] = []

    def train(trainer: int) -> None:
        for number in range(pushes):
            # A row of its own, one that has to be made, and one that all change.
            ids = [trainer, 1000 * trainer + number, 7]
            for _ in range(2):  # the second is a repeat
                pushed = server.push(
                    number + 1,
                    window(number, task=trainer),
                    blocks=ONES,
                    rows=Rows(ids, np.ones((3, 2))),
                    trainer=trainer,
                )
                verdicts.append(verdict(pushed))

    _run(*(threading.Thread(target=train, args=(trainer,)) for trainer in trainers))
    assert verdicts.count("applied") == verdicts.count("duplicate") == 4 * pushes
    assert server.version() == 4 * pushes
    own = server.pull_rows(list(trainers))
    assert np.array_equal(own, np.full((4, 2), -float(pushes))), "nobody else changed them"
    made = [1000 * trainer + number for trainer in trainers for number in range(pushes)]
    assert np.array_equal(server.pull_rows(made), np.full((4 * pushes, 2), -1.0))
    for values in server.pull().values():
        assert np.all(values == -4 * pushes)
    shared = server.pull_rows([7])
    assert np.all(shared >= -4 * pushes), "nothing was applied twice"
    assert np.all(shared < 0)


@pytest.mark.parametrize(
    "rows", [SGD(lr=0.1), Adagrad(lr=0.1), Adam(lr=0.1), AdamW(lr=0.1)], ids=repr
)
def test_without_company_it_is_the_queue_to_the_bit(
    make_server: MakeServer, rows: RowOptimizer
) -> None:
    found = []
    for pace in (Async(), HOGWILD):
        server = make_server(plan=make_plan(pace=pace, rows=rows, init=Uniform(0.1)))
        random = np.random.default_rng(0)
        for number in range(6):
            server.push(
                number + 1,
                window(number),
                blocks={0: random.normal(size=6), 1: random.normal(size=4)},
                rows=Rows([number % 3, 7], random.normal(size=(2, 2))),
            )
        found.append([*server.pull().values(), server.pull_rows([0, 1, 2, 7])])
    for serial, hogwild in zip(*found, strict=True):
        assert np.array_equal(serial, hogwild)


def test_steps_of_a_table_are_counted_exactly() -> None:
    table = RowTable(TableSpec("t", 2, Adam(steps="table"), Uniform(0.1)), 0)
    ids, ones = np.arange(9), np.ones((9, 2), np.float32)
    steps = [TableStep(table, TableGradients("t", ids, ones, False, (0,), (0, 9)))]
    assert not step_rows(steps, RowStep()), "rows are made alone"
    table.apply(ids, ones)

    def train() -> None:
        for _ in range(50):
            assert step_rows(steps, RowStep())

    _run(*(threading.Thread(target=train) for _ in range(4)))
    assert table.export()[TABLE_STEPS].tolist() == [201]


def test_a_cut_has_all_pushes_before_it_and_none_behind_it(
    make_server: MakeServer, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(pace=HOGWILD)
    server = make_server(plan=plan)
    _first_pushes(server)
    is_at_it, may_go_on, step = threading.Event(), threading.Event(), RowTable.step_made

    def hold(*arguments: Any) -> None:
        if threading.current_thread() is early:
            is_at_it.set()
            assert may_go_on.wait(PATIENCE_S)
        step(*arguments)

    def push() -> None:
        pushed = server.push(1, window(0, task=20), rows=ROWS, trainer=20)
        assert verdict(pushed) == "applied"

    monkeypatch.setattr(RowTable, "step_made", hold)
    early = threading.Thread(target=push)
    early.start()
    assert is_at_it.wait(PATIENCE_S)
    server.coordinator.order(Snapshot(cut=1, folder="cut-1", rounds={}), until=_second())
    late = server.submit_push(1, window(0, task=21), rows=ROWS, trainer=21)
    assert not late.is_given(), "it stands behind the cut"
    may_go_on.set()
    early.join(PATIENCE_S)
    assert verdict(late.wait()) == "applied"
    report = server.coordinator.order(until=lambda r: bool(r.answers))
    (cut,) = report.answers
    assert isinstance(cut, CutReport)
    order = Restore(
        timeline=1, cut=1, folder="cut-1", plans=(plan,), files=cut.files, rounds={}
    )
    share = read_share(store, order, "server-0", range(5))
    [(slot, held)] = [(s, h) for s, h in share.slots.items() if has_row_1(h)]
    assert {key.task for key in share.marks[slot]} == {0, 20}
    [where] = np.flatnonzero(held["table/user/ids"] == 1)
    assert held["table/user/values"][where].tolist() == [-2.0, -2.0]
    assert server.pull_rows([1]).tolist() == [[-3.0, -3.0]]


def has_row_1(held: Mapping[str, torch.Tensor]) -> bool:
    return "table/user/ids" in held and 1 in held["table/user/ids"].tolist()


def _second() -> Callable[[ServerReport], bool]:
    """The second report: the orders that answered the first have been carried out."""
    reports: list[ServerReport] = []

    def is_second(report: ServerReport) -> bool:
        reports.append(report)
        return len(reports) == 2

    return is_second


def test_what_is_fenced_is_over_before_anything_else_begins(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(plan=make_plan(pace=HOGWILD))
    _first_pushes(server)
    is_at_it, may_go_on, step = threading.Event(), threading.Event(), RowTable.step_made
    order: list[str] = []

    def hold(*arguments: Any) -> None:
        name = threading.current_thread().name
        if name == "old":
            is_at_it.set()
            assert may_go_on.wait(PATIENCE_S)
        order.append(name)
        step(*arguments)

    def push() -> None:
        server.push(1, window(0, task=5), rows=ROWS, trainer=20)

    monkeypatch.setattr(RowTable, "step_made", hold)
    old = threading.Thread(target=push, name="old")
    old.start()
    assert is_at_it.wait(PATIENCE_S)
    fence = Fence(incarnation=20, keys=(task_key(5),), rounds={})
    report = server.coordinator.order(fence, until=lambda report: bool(report.answers))
    entry = MarkEntry(task_key(5), (0,))
    assert report.answers == (FenceReport(incarnation=20, marks=(entry,)),)
    new = server.submit_push(1, window(1, task=5), rows=ROWS, trainer=21)
    assert order == []
    may_go_on.set()
    old.join(PATIENCE_S)
    assert verdict(new.wait()) == "applied"
    assert len(order) == 2
    assert order[0] == "old"
    assert verdict(server.push(2, window(1, task=5), trainer=20)) == "fenced"


def test_four_trainers_find_what_one_would(make_server: MakeServer) -> None:
    plan = make_plan(
        pace=HOGWILD, optimizer=OptimizerSpec("SGD", ({"lr": 0.05},)), rows=Adagrad(lr=0.5)
    )
    server = make_server(plan=plan)
    wanted, rows_wanted = np.linspace(-3, 3, 6), np.array([[2.0, -1.0], [0.5, 4.0]])

    def train(trainer: int) -> None:
        for number in range(100):
            gradient = server.pull()[0] - wanted
            rows = server.pull_rows([1, 2]) - rows_wanted
            server.push(
                number + 1,
                window(number, task=trainer),
                blocks={0: gradient},
                rows=Rows([1, 2], rows),
                trainer=trainer,
            )

    _run(*(threading.Thread(target=train, args=(trainer,)) for trainer in range(20, 24)))
    assert np.abs(server.pull()[0] - wanted).max() < 0.01
    assert np.abs(server.pull_rows([1, 2]) - rows_wanted).max() < 0.1


@pytest.mark.parametrize("kind", ["SGD", "RAdam"])
def test_rows_that_need_one_step_at_a_time_are_refused_by_name(kind: str) -> None:
    optimizer = OptimizerSpec(kind, ({"lr": 0.1},))
    spec = make_plan(pace=HOGWILD, optimizer=optimizer, rows=FTRL()).spec
    reason = why_not_hogwild(spec)
    assert reason is not None
    assert re.search("FTRL of the embedding 'user' cannot", reason)
    assert why_not_hogwild(make_plan(pace=HOGWILD, optimizer=optimizer).spec) is None
    assert why_not_hogwild(make_plan(pace=Async(), rows=FTRL()).spec) is None


def test_a_part_without_rows_is_refused_with_what_to_write_instead() -> None:
    spec = msgspec.structs.replace(make_plan(pace=HOGWILD).spec, tables=())
    reason = why_not_hogwild(spec)
    assert reason is not None
    assert re.search("expected a part with rows .*got one without.*pace=async", reason)
    assert why_not_hogwild(msgspec.structs.replace(spec, pace=Async())) is None


def test_a_job_that_began_with_one_goes_on_in_the_queue(make_server: MakeServer) -> None:
    plan = make_plan(pace=HOGWILD)
    spec = msgspec.structs.replace(plan.spec, tables=())
    server = make_server(plan=msgspec.structs.replace(plan, spec=spec))
    assert verdict(server.push(1, window(0), blocks=ONES)) == "applied"
    assert np.array_equal(server.pull()[0], np.full(6, -1.0))
