"""Pulls of known rows over a Unix socket: answers come in the room that was kept."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from paceline.config import Async, Pace, Sync
from paceline.errors import DeadlineExceeded
from paceline.messages.data import DataReply, DataRequest, Pull, Pulled, Push
from paceline.messages.shared import Hyper, OptimizerSpec, ParameterSpec, PartPlan, PartSpec
from paceline.params.blocks import cut_blocks
from paceline.timing import Deadline
from paceline.trainer.tensors import ModelTensors, PartSteps
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS, ByteArray
from paceline.transport.handshake import Hello, HelloCheck
from paceline.transport.mailbox import LEAST_BYTES, Outgoing
from paceline.transport.opening import connect, listen
from tests.server.conftest import (
    CLOCK,
    PATIENCE_S,
    Array,
    Server,
    contribution,
    verdict,
    window,
)

MakeServer = Callable[..., Server]
SGD: Hyper = {"lr": 1.0}
ROWS, DIM = 4096, 15
SHAPES = [(ROWS, DIM), (9000,), (ROWS, DIM)]  # of the parameters, in slots 0, 1 and 2
ALL = range(ROWS)
# Rows and their numbers are a little less than the block, but not when both are aligned.
NEARLY_ALL = range(ROWS * 4 * DIM // (4 * DIM + 8))
assert min(np.prod(shape) * 4 for shape in SHAPES) > LEAST_BYTES


def plan_of(pace: Pace | None) -> PartPlan:
    """Part 0: two embeddings, and a parameter with dense gradients between them."""
    specs = tuple(
        ParameterSpec((f"p{i}",), shape, "float32", has_sparse_gradients=len(shape) == 2)
        for i, shape in enumerate(SHAPES)
    )
    spec = PartSpec(0, specs, OptimizerSpec("SGD", (SGD,)), (), pace or Async())
    blocks = cut_blocks(specs, 1, first_slot=0)
    return PartPlan(spec, blocks, len(blocks), 0, {b.slot: "server-0" for b in blocks})


class Reader:
    """The numbers of a trainer, and its connection."""

    def __init__(self, connection: Connection, plan: PartPlan) -> None:
        self.parameters = [nn.Parameter(torch.full(s, 9.0)) for s in SHAPES]
        self._numbers = ModelTensors(
            PartSteps(self.parameters, []), plan.spec.pace, sparse=[0, 2]
        )
        self.connection, self._plan = connection, plan

    def ask(self, at_round: int = 0) -> tuple[int, Callable[[Any], None]]:
        """Submit a pull; its number, and who is told the answer."""
        pull = Pull(incarnation=11, timeline=0, part=0, at_round=at_round)
        payload = self._numbers.attach("server-0", pull, self._plan)
        assert payload.landed is not None
        number = self.connection.submit(
            payload.message,
            payload.buffers,
            landing=payload.landing,
            reply_sizes=payload.reply_sizes,
        )
        return number, payload.landed

    def pull(self) -> Pulled:
        number, landed = self.ask()
        pulled = self.connection.wait_reply(number, PATIENCE_S).message
        assert isinstance(pulled, Pulled)
        landed(pulled)
        self._numbers.settle()
        return pulled


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Bytes of the buffers of each answer that comes through a mailbox."""
    found: list[list[int]] = []
    take = Outgoing.take

    def take_noted(self: Outgoing, place: int, buffers: Sequence[ByteArray]) -> None:
        found.append([buffer.nbytes for buffer in buffers])
        take(self, place, buffers)

    monkeypatch.setattr(Outgoing, "take", take_noted)
    return found


@pytest.fixture
def make_reader(make_server: MakeServer) -> Iterator[Callable[..., tuple[Server, Reader]]]:
    """Makes a server, and a reader that is connected with it over a Unix socket."""
    # A folder of the test itself could be too long for a socket path.
    folder = Path(tempfile.mkdtemp(prefix="pl-"))
    opened: list[Any] = []

    def make(pace: Pace | None = None) -> tuple[Server, Reader]:
        plan = plan_of(pace)
        server, address = make_server(plan=plan), f"unix:{folder / 's.sock'}"
        check = HelloCheck("run", "server-0", {"trainer"})
        listener = listen(
            address,
            server.service,
            hello_check=check,
            request_type=lambda _: DataRequest,
            clock=CLOCK,
            limits=DATA_LIMITS,
        )
        hello = Hello(run="run", role="trainer-0", incarnation=11)
        connection = connect(address, hello, DataReply, DATA_LIMITS, CLOCK, PATIENCE_S)
        opened.extend([listener, connection])
        return server, Reader(connection, plan)

    yield make
    for one in reversed(opened):
        one.close()
    shutil.rmtree(folder)


def push(
    number: int, rows: dict[int, Sequence[int]], **fields: Any
) -> tuple[Push, list[Array]]:
    """Of minus ones for everything dense, and for some rows of slots."""
    message = Push(
        incarnation=12,
        timeline=0,
        part=0,
        number=number,
        window=window(number - 1),
        records=1,
        hyper=(SGD,),
        blocks=(1,),
        sparse_blocks=tuple(rows),
        **fields,
    )
    arrays: list[Array] = [np.full(SHAPES[1], -1, np.float32)]
    for numbers in rows.values():
        arrays += [
            np.array(numbers, np.int64),
            np.full((len(numbers), DIM), -1, np.float32),
        ]
    return message, arrays


CHANGES: list[tuple[Sequence[int], Sequence[int]]] = [
    ([], []),
    ([3, 7], []),
    ([3, 7], [0, 1, ROWS - 1]),
    (range(0, ROWS, 2), range(1, ROWS, 3)),
    ([5], ALL),
    (ALL, [5]),
    (ALL, ALL),
    (ALL, NEARLY_ALL),
    (NEARLY_ALL, NEARLY_ALL),
]


@pytest.mark.parametrize("changed", CHANGES, ids=[f"{len(a)} {len(b)}" for a, b in CHANGES])
def test_whatever_has_changed_comes_as_it_is_at_the_server(
    changed: tuple[Sequence[int], Sequence[int]],
    make_reader: Callable[..., tuple[Server, Reader]],
    taken: list[list[int]],
) -> None:
    server, reader = make_reader(Async())
    assert verdict(server.ask(*push(1, {0: [1, 2], 2: [2]}), trainer=12)) == "applied"
    first = reader.pull()
    whole = [4 * parameter.numel() for parameter in reader.parameters]
    assert (first.slots, taken.pop()) == ((0, 1, 2), whole)
    for number in (2, 3):
        rows = {0: changed[0], 2: changed[1]}
        assert verdict(server.ask(*push(number, rows), trainer=12)) == "applied"
        found = reader.pull()
        assert set(found.slots) | set(found.changed) == {0, 1, 2}
        expected = [torch.zeros(shape) for shape in SHAPES]
        expected[0][[1, 2]], expected[1][:], expected[2][2] = 1.0, number, 1.0
        expected[0][list(changed[0])] += number - 1
        expected[2][list(changed[1])] += number - 1
        for parameter, values in zip(reader.parameters, expected, strict=True):
            assert torch.equal(parameter, values)
    fits = NEARLY_ALL not in changed
    assert len(taken) == 2 * fits, "an answer went another way than thought"


def test_a_late_answer_changes_no_row_of_the_trainer(
    make_reader: Callable[..., tuple[Server, Reader]], taken: list[list[int]]
) -> None:
    server, reader = make_reader(Sync())
    reader.pull()
    number, _ = reader.ask(at_round=1)
    with pytest.raises(DeadlineExceeded):
        reader.connection.wait_reply(number, 0.01)
    prepared = server.ask(*push(1, {0: [3], 2: ALL}, round=1), trainer=12)
    assert verdict(prepared) == "prepared"
    server.commit(1, contribution(1, window(0), 1.0, 12))
    assert all(not parameter.any() for parameter in reader.parameters)
    found = reader.pull()
    assert (found.slots, found.changed) == ((1, 2), (0,)), "a late answer was believed"
    deadline, pulls = Deadline(CLOCK, PATIENCE_S), 2
    while len(taken) == pulls:  # the late answer has not come before the others
        assert not deadline.is_over(), "the late answer does not come"
        assert reader.pull().changed == (0, 2)
        pulls += 1
    assert reader.parameters[0].nonzero()[:, 0].unique().tolist() == [3]
    assert reader.parameters[2].all()
