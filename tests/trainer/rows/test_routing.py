import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import Adagrad, Sync, Zeros
from paceline.messages.shared import PartPlan, PartSpec, TableSpec
from paceline.params.rows.initial import table_key
from paceline.trainer.rows.routing import Router, RowGradient, merge
from tests.params.rows.compiled.reference import slot_of

SPEC = PartSpec(0, (), None, (TableSpec("user", 2, Adagrad(), Zeros()),), Sync())
PLAN = PartPlan(SPEC, (), 10, 4, {10: "b", 11: "a", 12: "b", 13: "a"})

ids_lists = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=40)


@given(ids_lists)
def test_every_id_goes_to_the_server_of_its_slot(numbers: list[int]) -> None:
    ids = np.array(numbers, np.int64)
    route, inverse = Router("user", PLAN).route(ids)
    assert (route.ids[inverse] == ids).all()
    assert sorted(route.ids.tolist()) == sorted(set(numbers))
    stop = 0
    for piece in route.pieces:
        assert piece.start == stop
        start = piece.start
        for slot, count in zip(piece.slots.slots, piece.slots.counts, strict=True):
            mine = route.ids[start : start + count]
            assert (slot_of(table_key("user"), mine, 4) + 10 == slot).all()
            assert PLAN.placement[slot] == piece.server
            start += count
        stop = piece.stop
        assert start == stop
    assert stop == len(route.ids)


@given(st.lists(ids_lists, min_size=1, max_size=4))
def test_merged_gradients_are_the_sums_by_id(lookups: list[list[int]]) -> None:
    expected: dict[int, float] = {}
    gradients = []
    for lookup in lookups:
        route, _ = Router("user", PLAN).route(np.array(lookup, np.int64))
        values = torch.arange(1.0, len(route.ids) + 1).repeat(2, 1).T.contiguous()
        gradients.append(RowGradient(route, values))
        for number, value in zip(route.ids.tolist(), values[:, 0].tolist(), strict=True):
            expected[number] = expected.get(number, 0.0) + value
    merged = merge("user", PLAN, gradients)
    found = merged.route.ids.tolist(), merged.gradient[:, 1].tolist()
    assert dict(zip(*found, strict=True)) == expected
    assert merged.gradient.is_contiguous()
