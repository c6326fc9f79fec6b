"""Pushes of a hogwild part change a slot at once; what counts is counted all the same."""

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from paceline.config import FTRL, Adagrad, Adam, Async, RowOptimizer, Uniform
from paceline.messages.server import (
    CutReport,
    Fence,
    FenceReport,
    MarkEntry,
    Restore,
    ServerReport,
    Snapshot,
)
from paceline.messages.shared import Hyper, OptimizerSpec
from paceline.params.dense import OptimizeBlock
from paceline.params.hogwild import HOGWILD_OPTIMIZERS, why_not_hogwild
from paceline.params.rows.table import RowTable
from paceline.server.slots.hogwild import HogwildBlock
from paceline.server.snapshots import read_share
from paceline.store.blobs.blobs import BlobStore
from tests.server.conftest import Rows, Server, make_plan, task_key, verdict, window

MakeServer = Callable[..., Server]
ONES = {0: np.ones(6), 1: np.ones(4)}
PATIENCE_S = 10.0
HOGWILD = Async(isolation="hogwild")
KINDS: list[tuple[str, Hyper]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
]


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


@pytest.mark.parametrize(
    ("owner", "name"), [(HogwildBlock, "step"), (RowTable, "step_made")]
)
def test_two_pushes_of_one_slot_run_at_the_same_time(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    server = make_server(plan=make_plan(pace=HOGWILD))
    _first_pushes(server)
    both, step = threading.Barrier(2, timeout=PATIENCE_S), getattr(owner, name)

    def meet(*arguments: Any) -> Any:
        both.wait()  # breaks unless the other push is in the same place
        return step(*arguments)

    monkeypatch.setattr(owner, name, meet)
    verdicts: list[str] = []

    def push(trainer: int) -> None:
        blocks = {0: np.ones(6)} if owner is HogwildBlock else {}
        rows = None if owner is HogwildBlock else Rows([1], np.ones((1, 2)))
        pushed = server.push(
            1, window(0, task=trainer), blocks=blocks, rows=rows, trainer=trainer
        )
        verdicts.append(verdict(pushed))

    _run(*(threading.Thread(target=push, args=(trainer,)) for trainer in (12, 13)))
    assert verdicts == ["applied", "applied"]
    assert not both.broken


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
    for values in (*server.pull().values(), server.pull_rows([7])):
        assert np.all(values >= -4 * pushes), "nothing was applied twice"
        assert np.all(values < 0)


@pytest.mark.parametrize(("kind", "hyper"), KINDS)
def test_without_company_it_is_the_queue_to_the_bit(
    make_server: MakeServer, kind: str, hyper: Hyper
) -> None:
    optimizer = OptimizerSpec(kind, (hyper,))
    found = []
    for pace in (Async(), HOGWILD):
        rows = Adam(lr=0.1)
        server = make_server(
            plan=make_plan(pace=pace, optimizer=optimizer, rows=rows, init=Uniform(0.1))
        )
        random = np.random.default_rng(0)
        for number in range(6):
            server.push(
                number + 1,
                window(number),
                blocks={0: random.normal(size=6), 1: random.normal(size=4)},
                rows=Rows([number % 3, 7], random.normal(size=(2, 2))),
                hyper={**hyper, "lr": 0.1 / (1 + number // 2)},
            )
        found.append([*server.pull().values(), server.pull_rows([0, 1, 2, 7])])
    for serial, hogwild in zip(*found, strict=True):
        assert np.array_equal(serial, hogwild)


@pytest.mark.parametrize("kind", HOGWILD_OPTIMIZERS[1:])
def test_steps_are_counted_exactly(kind: str) -> None:
    block = OptimizeBlock(torch.zeros(1000), kind, {"lr": 0.1})
    hogwild, gradient = HogwildBlock(block), torch.ones(1000)
    assert not hogwild.step(gradient, {"lr": 0.1}), "it makes the state alone"
    hogwild.step_alone(gradient, {"lr": 0.1})

    def train() -> None:
        for _ in range(50):
            assert hogwild.step(gradient, {"lr": 0.1})

    _run(*(threading.Thread(target=train) for _ in range(4)))
    assert float(block.state()["step"]) == 201


def test_state_that_is_there_no_more_or_not_yet_is_made_alone() -> None:
    block = OptimizeBlock(torch.zeros(4), "SGD", {"lr": 0.1})
    hogwild, gradient = HogwildBlock(block), torch.ones(4)
    hogwild.step_alone(gradient, {"lr": 0.1})
    assert hogwild.step(gradient, {"lr": 0.2}), "another rate needs no other state"
    assert not hogwild.step(gradient, {"lr": 0.1, "momentum": 0.9})
    hogwild.step_alone(gradient, {"lr": 0.1, "momentum": 0.9})
    assert hogwild.step(gradient, {"lr": 0.1, "momentum": 0.9})
    assert torch.allclose(block.state()["momentum_buffer"], torch.full((4,), 1.9))


def test_a_cut_has_all_pushes_before_it_and_none_behind_it(
    make_server: MakeServer, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(pace=HOGWILD)
    server = make_server(plan=plan)
    _first_pushes(server)
    is_at_it, may_go_on, step = threading.Event(), threading.Event(), HogwildBlock.step

    def hold(*arguments: Any) -> bool:
        if threading.current_thread() is early:
            is_at_it.set()
            assert may_go_on.wait(PATIENCE_S)
        return step(*arguments)

    def push() -> None:
        pushed = server.push(1, window(0, task=20), blocks=ONES, trainer=20)
        assert verdict(pushed) == "applied"

    monkeypatch.setattr(HogwildBlock, "step", hold)
    early = threading.Thread(target=push)
    early.start()
    assert is_at_it.wait(PATIENCE_S)
    server.coordinator.order(Snapshot(cut=1, folder="cut-1", rounds={}), until=_second())
    late = server.submit_push(1, window(0, task=21), blocks=ONES, trainer=21)
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
    tasks = {key.task for key in share.marks[0]}
    assert tasks == {0, 20}
    for slot in (0, 1):
        assert set(share.slots[slot]["values"].tolist()) == {-2.0}
    assert np.array_equal(server.pull()[0], np.full(6, -3.0))


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
    is_at_it, may_go_on, step = threading.Event(), threading.Event(), HogwildBlock.step
    order: list[str] = []

    def hold(*arguments: Any) -> bool:
        name = threading.current_thread().name
        if name == "old":
            is_at_it.set()
            assert may_go_on.wait(PATIENCE_S)
        order.append(name)
        return step(*arguments)

    def push() -> None:
        server.push(1, window(0, task=5), blocks={0: np.ones(6)}, trainer=20)

    monkeypatch.setattr(HogwildBlock, "step", hold)
    old = threading.Thread(target=push, name="old")
    old.start()
    assert is_at_it.wait(PATIENCE_S)
    fence = Fence(incarnation=20, keys=(task_key(5),), rounds={})
    report = server.coordinator.order(fence, until=lambda report: bool(report.answers))
    entry = MarkEntry(task_key(5), (0,))
    assert report.answers == (FenceReport(incarnation=20, marks=(entry,)),)
    new = server.submit_push(1, window(1, task=5), blocks={0: np.ones(6)}, trainer=21)
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


@pytest.mark.parametrize(
    ("kind", "rows", "text"),
    [
        ("RAdam", Adagrad(), r"RAdam cannot: use SGD, Adagrad, Adam, AdamW, RMSprop"),
        ("SparseAdam", Adagrad(), "SparseAdam cannot"),
        ("SGD", FTRL(), "FTRL of the embedding 'user' cannot"),
    ],
)
def test_what_needs_one_step_at_a_time_is_refused_by_name(
    kind: str, rows: RowOptimizer, text: str
) -> None:
    optimizer = OptimizerSpec(kind, ({"lr": 0.1},))
    spec = make_plan(pace=HOGWILD, optimizer=optimizer, rows=rows).spec
    reason = why_not_hogwild(spec)
    assert reason is not None
    assert re.search(text, reason)
    serial = make_plan(pace=Async(), optimizer=optimizer, rows=rows).spec
    assert why_not_hogwild(serial) is None
