"""A shard holds what the plan places on its server, and goes on as it was after a load."""

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from paceline.config import SGD, Adagrad, Async, Normal, Uniform
from paceline.errors import UsageError
from paceline.messages.shared import (
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    TableSpec,
)
from paceline.params.blocks import cut_blocks
from paceline.params.shard import ParameterShard

SPEC = PartSpec(
    part=2,
    parameters=(
        ParameterSpec(("w",), (4, 3), "float32", 0),
        ParameterSpec(("half",), (6,), "bfloat16", 1),
        ParameterSpec(("scale",), (), "float64", 1),
    ),
    optimizer=OptimizerSpec("Adam", ({"lr": 0.1}, {"lr": 0.5})),
    tables=(
        TableSpec("user/new", 3, Adagrad(), Uniform(0.1)),
        TableSpec("item", 2, SGD(lr=0.1), Normal(0.1)),
    ),
    pace=Async(),
)
BLOCKS = cut_blocks(SPEC.parameters, 2, first_slot=10, min_block=4)
PLACEMENT = {slot: f"server-{slot % 2}" for slot in range(10, 19)}
PLAN = PartPlan(SPEC, BLOCKS, 15, 4, PLACEMENT)


def _shard(server: str = "server-0") -> ParameterShard:
    shard = ParameterShard()
    shard.create(PLAN, server, seed=3)
    return shard


def _train(shard: ParameterShard, seed: int) -> None:
    random = np.random.default_rng(seed)
    for slot in sorted(shard.blocks):
        values = shard.blocks[slot].values
        gradient = torch.from_numpy(random.normal(size=len(values))).to(values.dtype)
        shard.blocks[slot].apply(gradient, {"lr": 0.1})
    for slot in sorted(shard.rows):
        ids = np.unique(random.integers(-20, 20, 9))
        gradients = random.normal(size=(len(ids), 3)).astype(np.float32)
        shard.rows[slot]["user/new"].apply(ids, gradients)


def test_a_shard_has_the_slots_that_lie_on_its_server() -> None:
    assert [(b.slot, b.stop - b.start) for b in BLOCKS] == [
        (10, 6),
        (11, 6),
        (12, 6),
        (13, 1),
    ]
    even, odd = _shard("server-0"), _shard("server-1")
    assert sorted(even.blocks) == [10, 12]
    assert sorted(odd.blocks) == [11, 13]
    assert sorted(even.rows) == [16, 18]
    assert sorted(odd.rows) == [15, 17]
    assert even.slots() == (10, 12, 16, 18)


def test_blocks_have_the_dtype_and_hyper_parameters_of_their_parameter() -> None:
    shard = _shard("server-1")
    block = shard.blocks[13]
    assert block.values.dtype == torch.float64
    shard.upload(13, np.array(2.0))
    block.apply(torch.ones(1, dtype=torch.float64), {})
    assert block.values.item() == pytest.approx(1.5)


def test_uploaded_bytes_are_the_values_in_any_dtype() -> None:
    shard = _shard()
    values = torch.linspace(0, 1, 6).to(torch.bfloat16)
    shard.upload(12, values.view(torch.uint8).numpy().tobytes())
    assert torch.equal(shard.blocks[12].values, values)
    shard.upload(10, np.arange(6, dtype=np.float32))
    assert shard.blocks[10].values.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_slot_that_went_through_a_file_goes_on_identically() -> None:
    first, second = _shard(), _shard()
    _train(first, seed=1)
    for slot in first.slots():
        second.load(slot, load(save(first.export(slot))))
    for shard in (first, second):
        _train(shard, seed=2)
    for slot in first.slots():
        one, other = first.export(slot), second.export(slot)
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name])


def test_exported_names_say_what_they_hold() -> None:
    shard = _shard()
    _train(shard, seed=1)
    assert shard.export(10).keys() == {
        "values",
        "state/step",
        "state/exp_avg",
        "state/exp_avg_sq",
    }
    assert shard.export(16).keys() == {
        "table/user/new/ids",
        "table/user/new/values",
        "table/user/new/sums",
        "table/item/ids",
        "table/item/values",
    }


def test_an_export_is_of_its_moment() -> None:
    shard = _shard()
    _train(shard, seed=1)
    exported = {slot: shard.export(slot) for slot in shard.slots()}
    before = {slot: save(tensors) for slot, tensors in exported.items()}
    _train(shard, seed=2)
    assert {slot: save(tensors) for slot, tensors in exported.items()} == before


def test_rows_are_the_same_in_every_slot_and_server() -> None:
    ids = np.array([1, 2])
    one = _shard("server-0").rows[16]["item"].gather(ids, create=True)
    other = _shard("server-1").rows[17]["item"].gather(ids, create=False)
    np.testing.assert_array_equal(one, other)


def test_creating_a_part_again_changes_nothing_and_another_plan_is_refused() -> None:
    shard = _shard()
    _train(shard, seed=1)
    before = save(shard.export(10))
    shard.create(PLAN, "server-0", seed=3)
    assert save(shard.export(10)) == before
    with pytest.raises(UsageError, match="part 2 lies here already, by another plan"):
        shard.create(msgspec.structs.replace(PLAN, num_row_slots=2), "server-0", seed=3)


def test_a_part_that_no_server_can_hold_is_refused_and_leaves_no_slot() -> None:
    shard = ParameterShard()
    without = msgspec.structs.replace(SPEC, optimizer=None)
    with pytest.raises(UsageError, match="'w' but no optimizer"):
        shard.create(msgspec.structs.replace(PLAN, spec=without), "server-0", seed=0)
    foreign = msgspec.structs.replace(SPEC, optimizer=OptimizerSpec("Muon", ({}, {})))
    with pytest.raises(UsageError, match="got 'Muon'"):
        shard.create(msgspec.structs.replace(PLAN, spec=foreign), "server-0", seed=0)
    assert shard.slots() == ()


def test_what_is_not_here_is_refused_by_name() -> None:
    shard = _shard()
    with pytest.raises(UsageError, match=r"slot of this server .* got 99"):
        shard.export(99)
    with pytest.raises(UsageError, match=r"slot of this server .* got 99"):
        shard.load(99, {})


def test_values_of_another_size_are_refused() -> None:
    shard = _shard()
    with pytest.raises(UsageError, match="slot 10: expected 24 bytes of values, got 20"):
        shard.upload(10, bytes(20))
    with pytest.raises(UsageError, match=r"slot 10: expected values of \(6,\).*nothing"):
        shard.load(10, {})
    with pytest.raises(UsageError, match=r"got \(6,\) torch.float64"):
        shard.load(10, {"values": torch.ones(6, dtype=torch.float64)})
    with pytest.raises(UsageError, match=r"slot 16: .* got 'table/shop/ids'"):
        shard.load(16, {"table/shop/ids": torch.ones(1)})
