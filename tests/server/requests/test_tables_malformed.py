"""Any request about tables is taken as it is, or refused before anything has changed."""

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Adagrad, Async, Combine, Zeros
from paceline.errors import UsageError
from paceline.ids import Span, Window
from paceline.messages.data import PullRows, Push, Upload
from paceline.messages.locking import RowSlots
from paceline.messages.shared import PartPlan, PartSpec, TableSpec
from paceline.params.rows.values import ValueTable
from paceline.params.shard import ParameterShard
from paceline.server.answers.pushes import read_push
from paceline.server.requests import read_upload
from paceline.server.requests.contents import read_pull_rows
from paceline.server.requests.layouts import layout_of

ROWS, SLOTS, FIRST = 7, 3, 10
WHO: dict[str, Any] = {"incarnation": 1, "timeline": 0, "part": 4}


def plan_of(rows: int | None, dtype: str) -> PartPlan:
    """Slots 10 to 12, the last on another server."""
    own = Combine(dtype=dtype, shape=(2,), num_rows=rows)
    spec = PartSpec(4, (), None, (TableSpec("t", 2, own, Zeros()),), Async())
    placement = {10: "server-0", 11: "server-0", 12: "server-1"}
    return PartPlan(spec, (), FIRST, SLOTS, placement)


def own_table(shard: ParameterShard, slot: int) -> ValueTable:
    table = shard.rows[slot]["t"]
    assert isinstance(table, ValueTable)
    return table


slots = st.lists(st.integers(9, 13), max_size=4)
counts = st.lists(st.integers(-1, 3), max_size=4)
ids = st.lists(st.integers(-1, ROWS) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=5)
names = st.sampled_from(["t", "t", "t", "u", ""])
spans = st.lists(st.builds(Span, st.integers(0, 1), st.integers(-1, 2), st.integers(-1, 2)))
plans = st.builds(
    plan_of, st.sampled_from([None, ROWS]), st.sampled_from(["int8", "float32", "float64"])
)


def buffers_of(drawn: list[int], payload: bytes) -> list[np.ndarray]:
    held = [np.array(drawn, np.int64).tobytes(), payload]
    return [np.frombuffer(bytearray(one), np.uint8) for one in held]


@given(
    plan=plans,
    entries=st.lists(st.tuples(names, slots, counts, st.booleans()), max_size=2),
    drawn=ids,
    size=st.sampled_from([0, 2, 8, 16, 24, 32, 48, 80]),
    window=spans,
    fields=st.fixed_dictionaries(
        {},
        optional={"round": st.just(1), "is_void": st.just(True), "blocks": st.just((10,))},
    ),
)
def test_any_push_is_read_or_refused(
    plan: PartPlan,
    entries: list[Any],
    drawn: list[int],
    size: int,
    window: list[Span],
    fields: dict[str, Any],
) -> None:
    rows = tuple(
        RowSlots(name, tuple(at), tuple(held), is_replacing)
        for name, at, held, is_replacing in entries
    )
    push = Push(
        **WHO, number=1, window=Window(0, 0, tuple(window)), records=1, rows=rows, **fields
    )
    buffers = buffers_of(drawn, bytes(size)) * len(rows)
    shard = ParameterShard()
    shard.create(plan, "server-0", 0)
    before = {slot: shard.export(slot) for slot in shard.slots()}
    with contextlib.suppress(UsageError):
        contents = read_push(layout_of(plan, "server-0"), push, buffers)
        for slot in contents.row_slots():
            assert slot in {10, 11}, "rows that lie here"
            for one in contents.rows_of(slot):
                assert one.gradients.shape == (len(one.ids), 2)
                table = own_table(shard, slot)
                if len(np.unique(one.ids)) == len(one.ids):
                    table.apply(one.ids, one.gradients, replaces=one.replaces)
        return
    assert all(
        (shard.export(slot)[name] == tensor).all()
        for slot, held in before.items()
        for name, tensor in held.items()
    )


@given(plan=plans, name=names, at=slots, held=counts, drawn=ids)
def test_any_question_for_rows_is_read_or_refused(
    plan: PartPlan, name: str, at: list[int], held: list[int], drawn: list[int]
) -> None:
    rows = (RowSlots(name, tuple(at), tuple(held)),)
    shard = ParameterShard()
    shard.create(plan, "server-0", 0)
    with contextlib.suppress(UsageError):
        [wanted] = read_pull_rows(
            layout_of(plan, "server-0"),
            PullRows(**WHO, rows=rows, create=True),
            buffers_of(drawn, b"")[:1],
        )
        stretches = zip(wanted.slots, wanted.ends, wanted.ends[1:], strict=False)
        for slot, start, stop in stretches:
            found = shard.rows[slot]["t"].gather(wanted.ids[start:stop], True)
            assert found.shape == (stop - start, 2)


@given(plan=plans, at=slots, sizes=st.lists(st.sampled_from([0, 4, 8, 16, 32, 48])))
def test_any_upload_is_read_or_refused(
    plan: PartPlan, at: list[int], sizes: list[int]
) -> None:
    shard = ParameterShard()
    shard.create(plan, "server-0", 0)
    buffers = [np.zeros(size, np.uint8) for size in sizes]
    with contextlib.suppress(UsageError):
        values = read_upload(
            layout_of(plan, "server-0"), Upload(**WHO, slots=tuple(at)), buffers
        )
        for slot, buffer in values.items():
            shard.upload(slot, buffer)


def test_rows_of_embeddings_are_never_uploaded() -> None:
    plan = plan_of(None, "float32")
    tables = tuple(TableSpec(name, 2, Adagrad(), Zeros()) for name in ("a", "b"))
    spec = msgspec.structs.replace(plan.spec, tables=tables)
    layout = layout_of(msgspec.structs.replace(plan, spec=spec), "server-0")
    with pytest.raises(UsageError, match="has no rows until they are made"):
        read_upload(layout, Upload(**WHO, slots=(10,)), [np.zeros(8, np.uint8)])


@pytest.mark.parametrize("bound", [-(2**63), 2**63 - 1, 0, -1])
def test_ids_at_the_limits_are_ids_like_others(bound: int) -> None:
    plan = plan_of(None, "int8")
    shard = ParameterShard()
    shard.create(plan, "server-0", 0)
    at = np.array([bound, 5], np.int64)
    own_table(shard, 10).apply(at, np.array([[1, 2], [3, 4]], np.int8))
    assert own_table(shard, 10).gather(at, False).tolist() == [[1, 2], [3, 4]]
    assert shard.export(10)["table/t/ids"].tolist() == at.tolist()
