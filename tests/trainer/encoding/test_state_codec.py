"""A state as bytes and back: exactly, or refused by its path."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import CheckpointCorrupt, UsageError
from paceline.trainer.encoding.state_codec import decode_state, encode_state

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
STATES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one: object, other: object) -> bool:
    """Equal in value and kind; not a number equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        assert isinstance(other, dict)
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        assert isinstance(other, list | tuple)
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


@settings(max_examples=50, deadline=None)
@given(STATES)
def test_what_is_decoded_is_what_was_encoded(state: object) -> None:
    assert same(decode_state(encode_state(state, "state")), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_come_back_to_the_bit(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1], [2, 300]]).to(dtype)
    back = decode_state(encode_state({"a": tensor, "b": [tensor.t()]}, "state"))
    assert back["a"].dtype == dtype
    assert torch.equal(back["a"], tensor)
    assert torch.equal(back["b"][0], tensor.t())


def test_a_tensor_is_copied_when_it_is_encoded() -> None:
    tensor = torch.zeros(2)
    data = encode_state(tensor, "state")
    tensor += 1
    assert torch.equal(decode_state(data), torch.zeros(2))


def test_counters_sets_and_arrays_keep_their_kind() -> None:
    state = {"milestones": Counter({3: 1}), "seen": {1, 2}, "mean": np.float64(0.5)}
    back = decode_state(encode_state(state, "state"))
    assert back["milestones"] == Counter({3: 1})
    assert isinstance(back["milestones"], Counter)
    assert back["seen"] == {1, 2}
    assert back["mean"] == 0.5


def test_a_scheduler_and_a_scaler_survive() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    optimizer.step()
    scheduler.step()
    back = decode_state(encode_state(scheduler.state_dict(), "scheduler"))
    assert back == scheduler.state_dict()


def test_what_cannot_be_saved_is_named_by_its_path() -> None:
    with pytest.raises(UsageError, match=r"scheduler\['inner'\]\[1\] is a function"):
        encode_state({"inner": [1, lambda: 2]}, "scheduler")


@pytest.mark.parametrize("flipped", range(0, 200, 7))
def test_other_bytes_are_no_state(flipped: int) -> None:
    data = bytearray(encode_state({"a": torch.arange(4), "b": "text"}, "state"))
    with pytest.raises(CheckpointCorrupt, match="not a state that was kept"):
        decode_state(bytes(data[: max(1, len(data) - 1 - flipped)]))
