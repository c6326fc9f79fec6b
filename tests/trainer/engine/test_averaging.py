"""Buffers are averaged by records; equal ones stay so to the bit."""

import pytest
import torch
from torch import nn

from paceline.trainer.engine.tracked_objects import Tracker, average, average_states


def test_floats_are_weighted_by_records() -> None:
    found = average([torch.tensor([1.0, 4.0]), torch.tensor([5.0, 0.0])], [3, 1])
    assert torch.equal(found, torch.tensor([2.0, 3.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_equal_buffers_stay_equal_to_the_bit(dtype: torch.dtype) -> None:
    value = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(average([value] * 7, [1, 10, 3, 7, 999_983, 2, 5]), value)


def test_one_alone_is_taken_as_it_is() -> None:
    value = torch.tensor([0.1, 0.7], dtype=torch.float64)
    assert torch.equal(average([value], [3]), value)


def test_whole_numbers_are_the_greatest_and_flags_the_first() -> None:
    counts = [torch.tensor(4), torch.tensor(9), torch.tensor(2)]
    assert average(counts, [1, 1, 1]) == 9
    assert not average([torch.tensor(False), torch.tensor(True)], [1, 1])


def test_states_of_trackers_become_one_that_all_load() -> None:
    trackers, models = [], []
    for number in range(2):
        model = nn.BatchNorm1d(2)
        nn.init.constant_(model.running_mean, float(number))
        model.num_batches_tracked.fill_(10 - number)
        tracker = Tracker()
        tracker.add_model(0, model, None)
        trackers.append(tracker)
        models.append(model)
    assert trackers[0].averaged == ("buffers of part 0",)
    states = [tracker.encode_averaged() for tracker in trackers]
    found = trackers[0].encode(averaged=average_states(states, [1, 3]))
    assert models[0].running_mean.tolist() == [0.0, 0.0], "nobody has changed its own yet"
    for tracker in trackers:
        tracker.load_averaged(found)
    for model in models:
        assert model.running_mean.tolist() == [0.75, 0.75]
        assert model.num_batches_tracked.item() == 10


def test_buffers_that_were_kept_before_their_model_was_shared_stay_and_are_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracker, models = Tracker(), [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    tracker.add_model(0, models[0], None)
    kept = tracker.encode()
    tracker.add_model(1, models[1], None)
    for model in models:
        nn.init.constant_(model.running_mean, 5.0)

    tracker.load_averaged(kept)

    assert models[0].running_mean.tolist() == [0.0, 0.0]
    assert models[1].running_mean.tolist() == [5.0, 5.0]
    (told,) = caplog.messages
    assert told == "the job has kept no buffers of part 1 yet: here they stay as they are"


def test_a_model_without_float_buffers_is_not_averaged() -> None:
    model = nn.Linear(1, 1)
    model.register_buffer("seen", torch.zeros(3, dtype=torch.int64))
    tracker = Tracker()
    tracker.add_model(0, model, None)
    assert tracker.names == ("buffers of part 0",)
    assert tracker.averaged == ()
