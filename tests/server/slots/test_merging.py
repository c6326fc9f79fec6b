"""Pushes that wait for one slot may be one update; each counts for itself all the same."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import SGD, Adagrad, Adam, Async, Pace, RowOptimizer
from paceline.messages.data import Pull, PulledRows, PullRows
from paceline.messages.server import CutReport, Restore, Snapshot
from paceline.messages.shared import Hyper, OptimizerSpec, Waiting
from paceline.params.bundle import Bundle
from paceline.params.dense import OptimizeBlock
from paceline.params.rows.row_store import RowStore
from paceline.params.rows.table import RowTable
from paceline.params.sparse import SparseGradient
from paceline.server.requests.contents import RowGradients
from paceline.server.slots import slots as service_queue
from paceline.server.slots.merging import merge_blocks, merge_rows, merge_sparse
from tests.server.conftest import Answered, Rows, Server, group, make_plan, verdict, window

MakeServer = Callable[..., Server]
PATIENCE_S = 10.0
SAME_SLOT = [one for one in range(100) if group([one])[1].slots == (2,)]


@contextmanager
def held(
    server: Server, monkeypatch: pytest.MonkeyPatch, owner: type = Bundle
) -> Iterator[list[Any]]:
    """Inside, the first push of trainer 11 is at slot 0, or a table, and does not end.

    What is applied, in order, follows in the list.
    """
    is_at_it, may_end, apply = threading.Event(), threading.Event(), owner.apply  # type: ignore[attr-defined]  # of both
    applied: list[Any] = []

    def hold(block: Any, *arguments: Any) -> None:
        if not is_at_it.is_set():
            is_at_it.set()
            assert may_end.wait(PATIENCE_S)
        applied.append(arguments)
        apply(block, *arguments)

    monkeypatch.setattr(owner, "apply", hold)
    first = threading.Thread(target=_push, args=(server, 11, owner))
    first.start()
    assert is_at_it.wait(PATIENCE_S)
    try:
        yield applied
    finally:
        may_end.set()
        first.join(PATIENCE_S)
        assert not first.is_alive()


def _push(server: Server, trainer: int, owner: type = Bundle) -> None:
    assert verdict(_submit(server, trainer, owner=owner).wait()) == "applied"


def _submit(
    server: Server,
    trainer: int,
    *,
    hyper: Hyper | None = None,
    owner: type = Bundle,
) -> Answered:
    """A push of what is 2**(trainer - 11): sums say who is in them."""
    size = 2.0 ** (trainer - 11)
    blocks = {0: np.full(6, size)} if owner is Bundle else {}
    ids = [SAME_SLOT[0], SAME_SLOT[trainer - 10]]
    rows = None if owner is Bundle else Rows(ids, np.full((2, 2), size))
    pushed = window(0, task=trainer)
    return server.submit_push(
        1, pushed, blocks=blocks, rows=rows, trainer=trainer, hyper=hyper
    )


def _make(
    make_server: MakeServer,
    pace: Pace,
    optimizer: OptimizerSpec | None = None,
    rows: RowOptimizer | None = None,
) -> Server:
    spec = optimizer or OptimizerSpec("SGD", ({"lr": 1.0},))
    return make_server(plan=make_plan(pace=pace, optimizer=spec, rows=rows))


def _merged(server: Server) -> int:
    return server.service._standing.counters()["merged"]


def test_pushes_that_wait_become_one_update_and_are_acknowledged_each(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async(merge=3))
    with held(server, monkeypatch) as applied:
        answers = [_submit(server, trainer) for trainer in range(12, 17)]
        assert not any(answer.is_given() for answer in answers)
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 5
    sizes = [float(gradients[0][0]) for gradients, _ in applied]
    assert sizes == [1, 2 + 4 + 8, 16 + 32], "three at most are one"
    assert np.array_equal(server.pull()[0], np.full(6, -63.0))
    assert server.version() == 6, "it counts pushes"
    assert _merged(server) == 3
    again = [verdict(_submit(server, trainer).wait()) for trainer in range(11, 17)]
    assert again == ["duplicate"] * 6
    assert np.array_equal(server.pull()[0], np.full(6, -63.0))


def test_what_was_merged_is_counted_over_a_return_to_a_cut(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async(merge=4))
    snapshot = Snapshot(cut=1, folder="cut-1", rounds={})
    report = server.coordinator.order(snapshot, until=lambda r: bool(r.answers))
    (cut,) = (answer for answer in report.answers if isinstance(answer, CutReport))
    with held(server, monkeypatch):
        answers = [_submit(server, trainer) for trainer in (12, 13, 14)]
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 3
    restore = Restore(
        timeline=1,
        cut=1,
        folder="cut-1",
        plans=(server.plan,),
        files=cut.files,
        rounds={},
    )
    report = server.coordinator.order(
        restore, until=lambda report: report.ready and report.timeline == 1
    )
    assert report.counters["merged"] == 2


def test_by_default_none_are_merged(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async())
    with held(server, monkeypatch) as applied:
        answers = [_submit(server, trainer) for trainer in (12, 13)]
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 2
    assert [float(gradients[0][0]) for gradients, _ in applied] == [1, 2, 4]
    assert _merged(server) == 0


def test_an_adaptive_rule_takes_one_step_of_the_mean(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hyper: Hyper = {"lr": 0.1}
    server = _make(make_server, Async(merge=8), OptimizerSpec("Adam", (hyper,)))
    with held(server, monkeypatch):
        answers = [_submit(server, trainer) for trainer in (12, 13, 14)]
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 3
    block = OptimizeBlock(torch.zeros(6, dtype=torch.float64), "Adam", hyper)
    for size in (1.0, (2 + 4 + 8) / 3):
        block.apply(torch.full((6,), size, dtype=torch.float64), hyper)
    assert np.allclose(server.pull()[0], block.values.numpy(), rtol=1e-12)


@pytest.mark.parametrize("rows", [SGD(lr=1.0), Adagrad(lr=1.0)], ids=str)
def test_rows_of_waiting_pushes_change_once(
    make_server: MakeServer,
    monkeypatch: pytest.MonkeyPatch,
    rows: RowOptimizer,
) -> None:
    server = _make(make_server, Async(merge=8), rows=rows)
    with held(server, monkeypatch, RowTable) as applied:
        answers = [_submit(server, trainer, owner=RowTable) for trainer in (12, 13, 14)]
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 3
    assert [len(ids) for ids, *_ in applied] == [2, 4], "one push alone, then three"
    found = server.pull_rows([SAME_SLOT[0], *SAME_SLOT[2:5]])[:, 0]
    if isinstance(rows, SGD):
        assert found.tolist() == [-15, -2, -4, -8]
    else:
        mean, first = (2 + 4 + 8) / 3, 1.0
        assert np.allclose(found[0], -1 - mean / np.sqrt(first + mean**2))
        assert np.allclose(found[1:], -1), "the first step of a row that one push touches"


def test_other_hyper_parameters_are_another_update(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async(merge=8))
    with held(server, monkeypatch) as applied:
        answers = [
            _submit(server, trainer, hyper={"lr": lr})
            for trainer, lr in ((12, 1.0), (13, 1.0), (14, 0.5), (15, 0.5), (16, 1.0))
        ]
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 5
    found = [(float(gradients[0][0]), hyper["lr"]) for gradients, hyper in applied]
    assert found == [(1, 1.0), (2 + 4, 1.0), (8 + 16, 0.5), (32, 1.0)]


def test_what_is_read_between_two_pushes_has_only_the_first(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async(merge=8))
    with held(server, monkeypatch) as applied:
        _submit(server, 12)
        read = server.submit(Pull(incarnation=99, timeline=0, part=0))
        last = _submit(server, 13)
    read.wait()
    assert set(read.buffers[0].view(np.float64)) == {-3.0}
    assert verdict(last.wait()) == "applied"
    assert [float(gradients[0][0]) for gradients, _ in applied] == [1, 2, 4]


def test_a_repeat_of_a_waiting_push_is_told_to_wait_and_counts_once(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async(merge=8))
    with held(server, monkeypatch) as applied:
        answers = [_submit(server, trainer) for trainer in (12, 13)]
        assert isinstance(_submit(server, 12).wait(), Waiting)
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 2
    assert verdict(_submit(server, 12).wait()) == "duplicate"
    assert [float(gradients[0][0]) for gradients, _ in applied] == [1, 2 + 4]


@pytest.mark.parametrize("pace", [Async(), Async(merge=2)], ids=str)
def test_a_full_queue_sends_pushes_and_reads_back_undecided(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch, pace: Pace
) -> None:
    server = _make(make_server, pace)
    monkeypatch.setattr(service_queue, "MOST_WAITING", 2)
    with held(server, monkeypatch):
        answers = [_submit(server, trainer) for trainer in (12, 13)]
        assert verdict(_submit(server, 14).wait()) == "not_ready"
        assert verdict(server.ask(Pull(incarnation=99, timeline=0, part=0))) == "not_ready"
        assert np.array_equal(server.pull_rows([1]), [[0, 0]]), "other slots have room"
        assert not any(answer.is_given() for answer in answers)
    assert [verdict(answer.wait()) for answer in answers] == ["applied"] * 2
    assert server.version() == 3, "the one sent back was not decided"
    assert verdict(_submit(server, 14).wait()) == "applied"
    assert np.array_equal(server.pull()[0], np.full(6, -15.0))


def test_rows_are_read_later_where_too_much_waits(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _make(make_server, Async())
    monkeypatch.setattr(service_queue, "MOST_WAITING", 1)
    order, entry = group([SAME_SLOT[0]])
    ids = np.array([SAME_SLOT[0]], np.int64)[order]
    read = PullRows(incarnation=99, timeline=0, part=0, rows=(entry,), create=True)
    with held(server, monkeypatch, RowStore):
        waiting = _submit(server, 12, owner=RowStore)
        assert verdict(server.ask(read, [ids])) == "not_ready"
    assert verdict(waiting.wait()) == "applied"
    assert isinstance(server.ask(read, [ids]), PulledRows)


def test_all_pushes_of_many_trainers_are_in_the_sum(make_server: MakeServer) -> None:
    server = _make(make_server, Async(merge=4))
    verdicts: list[str] = []

    def train(trainer: int) -> None:
        for number in range(30):
            rows = Rows([trainer, 7], np.ones((2, 2)))
            blocks = {0: np.ones(6), 1: np.ones(4)}
            pushed = window(number, task=trainer)
            answer = server.push(
                number + 1, pushed, blocks=blocks, rows=rows, trainer=trainer
            )
            verdicts.append(verdict(answer))

    threads = [threading.Thread(target=train, args=(trainer,)) for trainer in range(20, 24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == ["applied"] * 120
    assert np.array_equal(server.pull()[0], np.full(6, -120.0))
    assert np.array_equal(server.pull_rows([20, 7]), [[-30, -30], [-120, -120]])


# ------------------------------------------------------------ the numbers

_floats = st.floats(-8, 8, width=32)
_some_rows = st.dictionaries(st.integers(0, 5), _floats, max_size=6)


def test_one_push_alone_keeps_its_bits() -> None:
    gradient = torch.rand(5)
    assert merge_blocks("Adam", [gradient]) is gradient
    alone = RowGradients("user", np.array([3]), np.ones((1, 2), np.float32))
    assert merge_rows(Adam(), [alone]) is alone


def test_blocks_are_summed_for_sgd_and_averaged_for_others() -> None:
    gradients = [torch.full((3,), size) for size in (1.0, 2.0, 6.0)]
    assert torch.equal(merge_blocks("SGD", gradients), torch.full((3,), 9.0))
    for kind in ("Adam", "Adagrad", "RMSprop"):
        assert torch.allclose(merge_blocks(kind, gradients), torch.full((3,), 3.0))


@given(st.lists(_some_rows, min_size=1, max_size=4), st.booleans())
def test_a_row_is_merged_over_the_pushes_that_touch_it(
    pushes: list[dict[int, float]], is_sum: bool
) -> None:
    wanted: dict[int, list[float]] = {}
    for push in pushes:
        for row, value in push.items():
            wanted.setdefault(row, []).append(value)
    rows = merge_rows(
        SGD(lr=1.0) if is_sum else Adagrad(),
        [
            RowGradients(
                "user",
                np.array(list(push), np.int64),
                np.array(list(push.values()), np.float32).reshape(-1, 1),
            )
            for push in pushes
        ],
    )
    sparse = merge_sparse(
        "SGD" if is_sum else "Adagrad",
        [
            SparseGradient(
                torch.tensor(sorted(push), dtype=torch.int64),
                torch.tensor([push[row] for row in sorted(push)]).view(-1, 1),
            )
            for push in pushes
        ],
    )
    for found in (
        dict(zip(rows.ids.tolist(), rows.gradients[:, 0].tolist(), strict=True)),
        dict(zip(sparse.rows.tolist(), sparse.values[:, 0].tolist(), strict=True)),
    ):
        assert found.keys() == wanted.keys()
        for row, values in wanted.items():
            total = sum(values) / (1 if is_sum else len(values))
            assert found[row] == pytest.approx(total, abs=1e-5)
