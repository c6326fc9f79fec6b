"""Buffers of a model are those that it has now, whatever has become of them since."""

from collections import deque

import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.trainer.encoding.state_codec import encode_state
from paceline.trainer.engine.tracked_objects import average_states
from paceline.trainer.model.beside import Buffers


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count = self.count + 1
        return x


def test_buffers_of_a_model_are_loaded_in_place() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    mean = model[0].running_mean
    buffers = Buffers(model)
    assert sorted(buffers.state_dict()) == [
        "0.num_batches_tracked",
        "0.running_mean",
        "0.running_var",
    ]
    kept = {name: value.clone() for name, value in buffers.state_dict().items()}
    model(torch.randn(8, 2))
    buffers.load_state_dict(kept)
    assert model[0].running_mean is mean
    assert torch.equal(mean, torch.zeros(2))


def test_a_model_without_lasting_buffers_has_none() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("scratch", torch.zeros(1), persistent=False)
    assert not Buffers(model)


def test_a_buffer_that_is_assigned_anew_is_the_new_one() -> None:
    model = nn.Sequential(Counting())
    buffers = Buffers(model)
    for _ in range(3):
        model(torch.zeros(1))
    assert buffers.state_dict()["0.count"].tolist() == [3, 3]
    buffers.load_state_dict({"0.count": torch.full((2,), 7.0)})
    assert model[0].count.tolist() == [7, 7]


def test_buffers_that_were_moved_are_loaded_where_they_are() -> None:
    model = nn.BatchNorm1d(2)
    buffers = Buffers(model)
    kept = {name: value.clone() + 1 for name, value in buffers.state_dict().items()}
    model.double()
    mean = model.running_mean
    buffers.load_state_dict(kept)
    assert model.running_mean is mean
    assert mean is not None
    assert mean.dtype is torch.float64
    assert mean.tolist() == [1, 1]


def test_a_buffer_that_has_grown_or_changed_its_kind_is_assigned() -> None:
    model = Counting()
    buffers = Buffers(model)
    buffers.load_state_dict({"count": torch.arange(5)})
    assert model.count.tolist() == [0, 1, 2, 3, 4]
    assert model.count.dtype is torch.int64
    assert "count" in dict(model.named_buffers())


def test_a_state_that_is_assigned_is_not_the_one_that_was_kept() -> None:
    model, kept = Counting(), torch.zeros(3)
    Buffers(model).load_state_dict({"count": kept})
    model.count.add_(1)
    assert kept.tolist() == [0, 0, 0]


def test_buffers_that_are_tied_stay_so_under_both_names() -> None:
    one, other = Counting(), Counting()
    other.count = one.count
    buffers = Buffers(nn.ModuleList([one, other]))
    state = {"0.count": torch.ones(3), "1.count": torch.ones(3)}
    assert buffers.state_dict().keys() == state.keys()
    buffers.load_state_dict(state)
    assert one.count is other.count


def test_a_buffer_registered_later_comes_and_goes_with_the_state() -> None:
    model = Counting()
    buffers = Buffers(model)
    buffers.load_state_dict({"count": torch.ones(2), "later": torch.ones(1)})
    assert buffers.state_dict().keys() == {"count", "later"}
    buffers.load_state_dict({"count": torch.ones(2)})
    assert buffers.state_dict().keys() == {"count"}


def test_a_buffer_without_a_place_is_refused_by_name() -> None:
    buffers = Buffers(nn.Sequential(nn.Linear(1, 1)))
    with pytest.raises(UsageError, match=r"buffer '3.count', and the model has no module"):
        buffers.load_state_dict({"3.count": torch.zeros(1)})
    with pytest.raises(UsageError, match=r"buffer '0.weight', .* that is a Parameter"):
        buffers.load_state_dict({"0.weight": torch.zeros(1)})


@pytest.mark.parametrize("there", [{}, {"queue": torch.zeros(3)}])
def test_buffers_that_have_grown_apart_are_not_averaged(
    there: dict[str, torch.Tensor],
) -> None:
    states = [{"buffers": {"queue": torch.zeros(2)}}, {"buffers": there}]
    encoded = deque(encode_state(state, "state") for state in states)
    with pytest.raises(UsageError, match=r"'queue' \(buffers\) has the shape \(2,\)"):
        average_states(encoded, [1, 1])
