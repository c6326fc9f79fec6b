"""A block with sparse gradients at a server: rows come in, rows that changed go out."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from paceline.config import Pace, Sync
from paceline.messages.data import Pull, Pulled, Push, Upload
from paceline.messages.server import Restore, Snapshot
from paceline.messages.shared import (
    Done,
    Hyper,
    Message,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    Refusal,
)
from paceline.params.blocks import cut_blocks
from tests.server.conftest import (
    Array,
    Server,
    contribution,
    make_plan,
    verdict,
    window,
)

MakeServer = Callable[..., Server]
SGD: Hyper = {"lr": 1.0}
ROWS, DIM = 20, 2


def sparse_plan(pace: Pace | None = None, kind: str = "SGD") -> PartPlan:
    """Part 0: a weight of 20 rows in slot 0; for most kinds, 4 elements in slot 1."""
    plan = make_plan(pace=pace, optimizer=OptimizerSpec(kind, (SGD,)))
    weight = ParameterSpec(("w",), (ROWS, DIM), "float64", has_sparse_gradients=True)
    others = plan.spec.parameters[1:] if kind != "SparseAdam" else ()
    spec = msgspec.structs.replace(plan.spec, parameters=(weight, *others), tables=())
    blocks = cut_blocks(spec.parameters, 1, first_slot=0)
    return PartPlan(spec, blocks, len(blocks), 0, {b.slot: "server-0" for b in blocks})


def push(number: int, rows: Sequence[int], **fields: Any) -> tuple[Push, list[Array]]:
    """A push of ones for some rows."""
    message = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=number,
        window=window(number - 1),
        records=1,
        hyper=(SGD,),
        sparse_blocks=(0,),
    )
    arrays = [np.array(rows, np.int64), np.ones((len(rows), DIM))]
    return msgspec.structs.replace(message, **fields), arrays


def pull(server: Server, known: int | None = None) -> tuple[Pulled, list[Array]]:
    message = Pull(
        incarnation=11,
        timeline=server.timeline,
        part=0,
        known={} if known is None else {0: known},
    )
    answered = server.submit(message)
    found = answered.wait()
    assert isinstance(found, Pulled), found
    return found, answered.buffers


def weight(server: Server) -> Array:
    """All of it, (rows, dim)."""
    return pull(server)[1][0].view(np.float64).reshape(ROWS, DIM)


def test_rows_of_a_push_change_and_no_others(make_server: MakeServer) -> None:
    server = make_server(plan=sparse_plan())
    assert verdict(server.ask(*push(1, [3, 7]))) == "applied"
    assert verdict(server.ask(*push(2, [7, 19]))) == "applied"
    expected = np.zeros((ROWS, DIM))
    expected[[3, 19]], expected[7] = -1, -2
    assert np.array_equal(weight(server), expected)


def test_a_reader_gets_the_rows_that_changed_since_it_read(make_server: MakeServer) -> None:
    server = make_server(plan=sparse_plan())
    server.ask(*push(1, [3, 7]))
    first, _ = pull(server)
    assert (first.slots, first.changed, first.updates) == ((0, 1), (), {0: 1})
    server.ask(*push(2, [7, 19]))
    server.ask(*push(3, [2]))
    found, (whole, rows, values) = pull(server, known=1)
    assert (found.slots, found.changed, found.updates) == ((1,), (0,), {0: 3})
    assert len(whole.view(np.float64)) == 4
    assert rows.view(np.int64).tolist() == [2, 7, 19]
    assert values.view(np.float64).reshape(-1, DIM)[:, 0].tolist() == [-1, -2, -1]
    _, (_, rows, values) = pull(server, known=3)
    assert len(rows) == len(values) == 0


def test_a_reader_that_lacks_most_rows_gets_the_whole_block(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=sparse_plan())
    server.ask(*push(1, range(ROWS - 1)))
    found, (others, whole) = pull(server, known=0)
    assert (found.slots, found.changed) == ((1, 0), ()), "what it knew comes behind"
    assert (len(others), len(whole)) == (8 * 4, 8 * ROWS * DIM)


def test_who_read_before_the_first_values_gets_all_of_them(make_server: MakeServer) -> None:
    server = make_server(plan=sparse_plan())
    upload = Upload(incarnation=11, timeline=0, part=0, slots=(0,))
    assert server.ask(upload, [np.ones((ROWS, DIM))]) == Done()
    found, buffers = pull(server, known=0)
    assert found.slots == (1, 0)
    assert np.array_equal(buffers[1].view(np.float64), np.ones(ROWS * DIM))


MALFORMED: list[tuple[tuple[Push, list[Array]], str]] = [
    (push(1, [7, 3]), r"ascending rows of 0..19, got 2 from 7 to 3"),
    (push(1, [3, 3]), "distinct"),
    (push(1, [-1]), r"of 0..19, got 1 from -1"),
    (push(1, [3, ROWS]), r"got 2 from 3 to 20"),
    (push(1, [3], sparse_blocks=(1,)), "slot 1 has no rows"),
    (push(1, [3], sparse_blocks=(5,)), r"dense slots \[0, 1\] .* got 5"),
    (push(1, [3], sparse_blocks=(0, 0)), "expected distinct blocks"),
    (push(1, [3], hyper=()), "1 parameter groups, got 0"),
    (push(1, [3], hyper=({"lr": 1.0, "weight_decay": 0.1},)), "weight_decay of SGD"),
    ((push(1, [3])[0], [np.array([3]), np.ones(3)]), "expected 16 bytes, got 24"),
    ((push(1, [3])[0], [np.ones(3, np.int32), np.ones(2)]), "expected 8 bytes, got 12"),
    (
        (push(1, [], sparse_blocks=(), blocks=(0,))[0], [np.ones(ROWS * DIM)]),
        "takes gradients of rows",
    ),
]


@pytest.mark.parametrize(("request_", "text"), MALFORMED, ids=[t for _, t in MALFORMED])
def test_malformed_rows_change_nothing(
    make_server: MakeServer, request_: tuple[Push, list[Array]], text: str
) -> None:
    server = make_server(plan=sparse_plan())
    refusal = server.ask(*request_)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "invalid"
    assert re.search(text, refusal.text), refusal.text
    assert verdict(server.ask(*push(1, [3]))) == "applied"
    assert weight(server).sum() == -DIM


def test_a_slot_that_has_no_rows_is_not_read_by_rows(make_server: MakeServer) -> None:
    server = make_server(plan=sparse_plan())
    message: Message = Pull(incarnation=11, timeline=0, part=0, known={1: 0})
    assert verdict(server.ask(message)) == "invalid"


def test_a_round_sums_the_rows_of_its_contributors(make_server: MakeServer) -> None:
    server = make_server(plan=sparse_plan(Sync()))
    first, second = window(0, task=1), window(0, task=2)
    server.ask(*push(1, [3, 7], window=first, round=1), trainer=11)
    server.ask(*push(1, [7, 9], window=second, round=1, incarnation=12), trainer=12)
    assert not weight(server).any()
    server.commit(1, contribution(1, first, 0.25, 11), contribution(1, second, 0.75, 12))
    assert weight(server)[[3, 7, 9], 0].tolist() == [-0.25, -1.0, -0.75]
    found, (_, rows, _) = pull(server, known=0)
    assert found.updates == {0: 1}, "one round is one update"
    assert rows.view(np.int64).tolist() == [3, 7, 9]


def test_a_block_of_rows_comes_back_from_a_cut_and_everything_counts_as_changed(
    make_server: MakeServer,
) -> None:
    server = make_server(plan=sparse_plan(kind="SparseAdam"))
    server.ask(*push(1, [3, 7]))
    order = Snapshot(cut=1, folder="cut-1", rounds={})
    report = server.coordinator.order(order, until=lambda report: bool(report.answers))
    [entry] = report.answers[0].files
    server.ask(*push(2, [3, 9]))
    expected = weight(server)
    restore = Restore(
        timeline=1, cut=1, folder="cut-1", plans=(server.plan,), files=(entry,), rounds={}
    )
    server.timeline = 1
    server.coordinator.order(restore, until=lambda r: r.ready and r.timeline == 1)
    assert pull(server, known=0)[0].slots == (0,)
    server.ask(*push(2, [3, 9], timeline=1))
    assert np.array_equal(weight(server), expected)
