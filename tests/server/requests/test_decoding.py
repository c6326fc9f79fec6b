"""A server takes coded gradients, gives coded values, and does what it would without."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from paceline.config import Async, Pace, Sync
from paceline.errors import UsageError
from paceline.messages.data import Pull, Pulled, PullRows, Push, Upload
from paceline.messages.server import ServerReport
from paceline.messages.shared import ParameterSpec, PartPlan, Refusal
from paceline.params.blocks import cut_blocks
from paceline.params.codecs.codec import Codec
from paceline.params.codecs.named import codec_of
from paceline.server.answers.pushes import read_push
from paceline.server.requests.decoding import coded_block_bytes, decode_push
from paceline.server.requests.layouts import layout_of
from paceline.transport.shared_memory import is_supported
from tests.server.conftest import (
    Array,
    Server,
    as_buffers,
    contribution,
    group,
    make_plan,
    verdict,
    window,
)

MakeServer = Callable[..., Server]
CODECS = ["fp16", "bf16", "int8", "int4", "top50%"]
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
IDS = [5, 3, 9]


def plan_of(pace: Pace) -> PartPlan:
    """Slot 0: (3, 2); slot 1: 4 elements; slot 2: 20 rows of torch's; a table behind."""
    plan = make_plan(pace=pace, dtype="float32")
    weight = ParameterSpec(("e",), (20, 2), "float32", has_sparse_gradients=True)
    parameters = (*plan.spec.parameters, weight)
    spec = msgspec.structs.replace(plan.spec, parameters=parameters)
    blocks = cut_blocks(spec.parameters, 1, first_slot=0)
    return PartPlan(spec, blocks, 3, 3, dict.fromkeys(range(6), "server-0"))


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def encoded(codec: Codec, values: Array, *, by_rows: bool = False) -> Array:
    if by_rows:
        coded = np.empty(codec.coded_row_bytes(*values.shape), np.uint8)
        codec.encode_rows(values, coded)
    else:
        coded = np.empty(codec.coded_bytes(values.size), np.uint8)
        codec.encode(values.reshape(-1), coded)
    return coded


def decoded(codec: Codec, values: Array, *, by_rows: bool = False) -> Array:
    found = np.empty_like(values)
    coded = encoded(codec, values, by_rows=by_rows)
    if by_rows:
        codec.decode_rows(coded, found)
    else:
        codec.decode(coded, found.reshape(-1))
    return found


DENSE, BIAS, ITEM, USER = drawn(3, 2), drawn(4), drawn(2, 2), drawn(3, 2)


def push(plan: PartPlan, **fields: Any) -> tuple[Push, list[Array]]:
    """A push of everything, coded as the plan says."""
    codec = codec_of(plan)
    order, entry = group(IDS)
    entry = msgspec.structs.replace(entry, slots=tuple(slot + 1 for slot in entry.slots))
    ids = np.array(IDS, np.int64)[order]
    item_rows = np.array([4, 7], np.int64)
    if codec is None:
        arrays = [DENSE, BIAS, item_rows, ITEM, ids, USER[order]]
    else:
        arrays = [
            encoded(codec, DENSE),
            encoded(codec, BIAS),
            item_rows,
            encoded(codec, ITEM, by_rows=True),
            ids,
            encoded(codec, USER[order], by_rows=True),
        ]
    message = Push(
        incarnation=11,
        timeline=0,
        part=0,
        number=1,
        window=window(0),
        records=1,
        hyper=({"lr": 1.0},),
        blocks=(0, 1),
        sparse_blocks=(2,),
        rows=(entry,),
    )
    return msgspec.structs.replace(message, **fields), arrays


def pulled(server: Server, **fields: Any) -> tuple[Pulled, list[Array]]:
    answered = server.submit(Pull(incarnation=99, timeline=0, part=0, **fields))
    message = answered.wait()
    assert isinstance(message, Pulled), message
    return message, answered.buffers


def pulled_rows(server: Server, ids: Sequence[int]) -> tuple[Array, Array]:
    """The order of the rows, and their bytes."""
    order, entry = group(ids)
    entry = msgspec.structs.replace(entry, slots=tuple(slot + 1 for slot in entry.slots))
    message = PullRows(incarnation=99, timeline=0, part=0, rows=(entry,), create=False)
    answered = server.submit(message, [np.array(ids, np.int64)[order]])
    answered.wait()
    return order, answered.buffers[0]


def halves(name: str, coded: Array) -> Array:
    found: Array = torch.from_numpy(coded).view(HALVES[name]).float().numpy()
    return found


def expected_step(name: str) -> tuple[Array, Array, Array, Array]:
    """What SGD with a rate of 1 makes of zeros: dense, bias, weight, rows."""
    codec = codec_of(plan_of(Async(codec=name)))
    assert codec is not None
    weight = np.zeros((20, 2), np.float32)
    weight[[4, 7]] = -decoded(codec, ITEM, by_rows=True)
    rows = -decoded(codec, USER, by_rows=True)
    return -decoded(codec, DENSE), -decoded(codec, BIAS), weight, rows


def assert_stands(server: Server, name: str) -> None:
    dense, bias, weight, rows = expected_step(name)
    message, buffers = pulled(server)
    assert message.slots == (0, 1, 2)
    order, row_bytes = pulled_rows(server, IDS)
    if name in HALVES:  # all were rounded when they were gradients
        values = [halves(name, buffer) for buffer in (*buffers, row_bytes)]
    else:
        values = [buffer.view(np.float32) for buffer in (*buffers, row_bytes)]
    for found, expected in zip(values, (dense, bias, weight, rows[order]), strict=True):
        assert np.array_equal(found, expected.reshape(-1))


@pytest.mark.parametrize("name", CODECS)
def test_a_coded_push_does_what_its_gradients_would(
    name: str, make_server: MakeServer
) -> None:
    plan = plan_of(Async(codec=name))
    server = make_server(plan=plan)
    assert verdict(server.ask(*push(plan))) == "applied"
    assert verdict(server.ask(*push(plan))) == "duplicate"
    assert_stands(server, name)


@pytest.mark.parametrize("name", CODECS)
def test_a_round_of_coded_pushes_is_their_mean(name: str, make_server: MakeServer) -> None:
    plan = plan_of(Sync(codec=name))
    server = make_server(plan=plan)
    for trainer in (11, 12):
        message, arrays = push(
            plan, round=1, incarnation=trainer, window=window(0, task=trainer)
        )
        assert verdict(server.ask(message, arrays, trainer)) == "prepared"
    server.commit(
        1,
        contribution(1, window(0, task=11), 0.5, trainer=11),
        contribution(1, window(0, task=12), 0.5, trainer=12),
    )
    assert_stands(server, name)


@pytest.mark.parametrize("name", HALVES)
def test_rows_of_a_weight_that_changed_come_coded(
    name: str, make_server: MakeServer
) -> None:
    plan = plan_of(Async(codec=name))
    server = make_server(plan=plan)
    server.ask(*push(plan))
    message, buffers = pulled(server, known={2: 0})
    assert (message.slots, message.changed) == ((0, 1), (2,))
    rows, values = buffers[2:]
    assert rows.view(np.int64).tolist() == [4, 7]
    expected = expected_step(name)[2][[4, 7]]
    assert np.array_equal(halves(name, values), expected.reshape(-1))


@pytest.mark.parametrize("name", HALVES)
def test_a_server_keeps_more_than_it_tells(name: str, make_server: MakeServer) -> None:
    plan = plan_of(Async(codec=name))
    server = make_server(plan=plan)
    whole = np.full(6, 1.00001, np.float32)
    upload = Upload(incarnation=11, timeline=0, part=0, slots=(0,))
    server.ask(upload, [whole])
    _, buffers = pulled(server)
    assert halves(name, buffers[0]).tolist() == [1.0] * 6
    slot = server.service._standing.slots.shard.blocks[0]
    assert slot.values.flatten().tolist() == whole.tolist()


def test_bytes_before_and_after_coding_are_counted(make_server: MakeServer) -> None:
    plan = plan_of(Async(codec="bf16"))
    server = make_server(plan=plan)
    server.ask(*push(plan))
    pulled(server)
    pulled_rows(server, IDS)

    def has_counted(report: ServerReport) -> bool:
        return report.counters.get("part-0.value_bytes", 0) > 0

    counters = server.coordinator.order(until=has_counted).counters
    gradients, values = 4 * (6 + 4 + 4 + 6), 4 * (6 + 4 + 40 + 6)
    assert counters["part-0.gradient_bytes"] == gradients
    assert counters["part-0.gradient_bytes_sent"] == gradients / 2
    assert counters["part-0.value_bytes"] == values
    assert counters["part-0.value_bytes_sent"] == values / 2


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("which", [0, 1, 3, 5])
def test_a_gradient_of_another_size_is_refused_and_changes_nothing(
    which: int, name: str, make_server: MakeServer
) -> None:
    plan = plan_of(Async(codec=name))
    server = make_server(plan=plan)
    message, arrays = push(plan)
    arrays[which] = arrays[which].view(np.uint8).reshape(-1)[:-1]
    answer = server.ask(message, arrays)
    assert isinstance(answer, Refusal)
    assert answer.kind == "invalid"
    assert "expected" in answer.text
    assert server.version() == 0
    assert verdict(server.ask(*push(plan))) == "applied"


def test_an_element_that_is_not_there_is_refused_by_its_slot(
    make_server: MakeServer,
) -> None:
    plan = plan_of(Async(codec="top50%"))
    server = make_server(plan=plan)
    message, arrays = push(plan)
    arrays[1] = arrays[1].copy()
    arrays[1][-2:].view(np.uint16)[0] = 4
    answer = server.ask(message, arrays)
    assert isinstance(answer, Refusal)
    assert "gradients of dense slot 1: top: expected distinct ascending" in answer.text
    assert server.version() == 0


@pytest.mark.parametrize("name", [None, *CODECS])
@given(data=st.data())
def test_any_push_is_read_or_refused(name: str | None, data: st.DataObject) -> None:
    plan = plan_of(Async(codec=name))
    layout = layout_of(plan, "server-0")
    message, arrays = push(plan)
    buffers = as_buffers([np.ascontiguousarray(array) for array in arrays])
    for _ in range(data.draw(st.integers(0, 3))):
        which = data.draw(st.integers(0, len(buffers) - 1))
        buffers[which] = data.draw(npst.arrays(np.uint8, st.integers(0, 64)))
    slots = st.lists(st.integers(-1, 7), max_size=3).map(tuple)
    if data.draw(st.booleans()):
        message = msgspec.structs.replace(
            message, blocks=data.draw(slots), sparse_blocks=data.draw(slots)
        )
    if data.draw(st.booleans()):
        message = msgspec.structs.replace(message, together=data.draw(slots))
    if data.draw(st.booleans()):
        buffers = buffers[: data.draw(st.integers(0, len(buffers)))]
    with contextlib.suppress(UsageError):
        read_push(layout, message, decode_push(layout, message, buffers)[0])


def test_a_part_without_a_codec_is_not_touched() -> None:
    plan = plan_of(Async())
    layout = layout_of(plan, "server-0")
    message, arrays = push(plan)
    buffers = as_buffers(arrays)
    plain, num_bytes = decode_push(layout, message, buffers)
    assert all(mine is theirs for mine, theirs in zip(plain, buffers, strict=True))
    assert num_bytes == 4 * (6 + 4 + 4 + 6)
    assert [coded_block_bytes(block) for block in layout.blocks.values()] == [24, 16, 160]


def test_rows_to_come_need_no_more_room_than_was_kept() -> None:
    """Sizes are a matter of shape and codec alone; both ends work them out."""
    for name, sizes in {"fp16": [12, 8, 80], "int8": [24, 16, 160]}.items():
        layout = layout_of(plan_of(Async(codec=name)), "server-0")
        assert [coded_block_bytes(block) for block in layout.blocks.values()] == sizes


@pytest.mark.parametrize("name", [None, *CODECS])
def test_values_that_are_rounded_are_read_by_asking_on_every_host(
    name: str | None, make_server: MakeServer
) -> None:
    whole = plan_of(Async(codec=name))
    parameters = whole.spec.parameters[:2]  # what changes by rows is asked for anyway
    spec = msgspec.structs.replace(whole.spec, parameters=parameters)
    blocks = cut_blocks(spec.parameters, 1, first_slot=0)
    plan = PartPlan(spec, blocks, 2, 3, dict.fromkeys(range(5), "server-0"))
    message, _ = pulled(make_server(plan=plan), asks_place=True)
    assert (message.place is None) == (name in HALVES or not is_supported())
