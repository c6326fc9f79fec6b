"""What a rank says it has for a push is what it brings to it."""

import itertools

import pytest
import torch
from torch import nn

from paceline.config import Sync
from paceline.messages.shared import OptimizerSpec, ParameterSpec, PartPlan, PartSpec
from paceline.params.blocks import cut_blocks
from paceline.trainer.group.offers import OwnShare, bring, offer, rows_of
from paceline.trainer.tensors import WHOLE_STEP, GatherChoice, ModelTensors, PartSteps

SPEC = PartSpec(
    0,
    (
        ParameterSpec(("dense",), (4,), "float32"),
        ParameterSpec(("rows",), (6, 3), "float32", has_sparse_gradients=True),
        ParameterSpec(("unused",), (2,), "float32"),
    ),
    OptimizerSpec("SGD", ({"lr": 0.1},)),
    (),
    Sync(),
)
PLAN = PartPlan(
    SPEC,
    cut_blocks(SPEC.parameters, 1, first_slot=0, min_block=1),
    3,
    0,
    {0: "server-0", 1: "server-0", 2: "server-0"},
)
BOTH = list(itertools.product((False, True), repeat=2))


class Follower:
    """One that has parameters, and computes gradients when told."""

    def __init__(self) -> None:
        parameters = [nn.Parameter(torch.zeros(one.shape)) for one in SPEC.parameters]
        self.dense, self.rows, _ = parameters
        groups = [{"lr": 0.1, "params": parameters}]
        self.numbers = ModelTensors(PartSteps(parameters, groups), Sync(), sparse=[1])
        self.own = OwnShare()

    def backward(self, *, dense: bool, rows: bool) -> None:
        self.own.deliver([0], 8)
        if dense:
            self.dense.sum().backward()
        if rows:
            ids = torch.tensor([5, 1, 5])
            nn.functional.embedding(ids, self.rows, sparse=True).sum().backward()


@pytest.mark.parametrize("kept", BOTH)
@pytest.mark.parametrize("new", BOTH)
@pytest.mark.parametrize("gathering", [GatherChoice(*pair) for pair in BOTH])
def test_what_is_said_is_what_is_brought(
    kept: tuple[bool, bool], new: tuple[bool, bool], gathering: GatherChoice
) -> None:
    process = Follower()
    process.backward(dense=kept[0], rows=kept[1])
    process.numbers.keep()
    process.backward(dense=new[0], rows=new[1])
    said = offer(process.numbers, process.own, 0, gathering)
    assert said == offer(process.numbers, process.own, 0, gathering), (
        "to say it changes nothing"
    )
    found = process.numbers.gather(gathering)
    assert set(said.dense) == found.dense.keys() - {1}
    assert said.has_rows == (1 in found.dense)
    assert said.records == 16
    assert not said.is_refused


def test_gradients_with_rows_come_as_they_were() -> None:
    process = Follower()
    process.backward(dense=True, rows=True)
    found = process.numbers.gather(WHOLE_STEP)
    message, buffers = bring(found, PLAN, process.numbers.gradients.sparse, is_finite=True)
    assert message.is_finite
    data = [bytearray(memoryview(buffer).cast("B")) for buffer in buffers]
    brought = rows_of(message, data, Follower().numbers, PLAN)
    assert brought.dense.keys() == {1}
    torch.testing.assert_close(
        brought.dense[1].to_dense(), found.dense[1].to_dense(), rtol=0, atol=0
    )


def test_what_only_the_scaler_could_unscale_is_said_to_be_refused() -> None:
    process = Follower()
    process.numbers.gradients.begin_step(is_scaled=True)
    process.backward(dense=True, rows=False)
    only_fresh = GatherChoice(with_step=True, only_fresh=True)
    assert offer(process.numbers, process.own, 0, only_fresh).is_refused
    assert not offer(process.numbers, process.own, 0, WHOLE_STEP).is_refused
