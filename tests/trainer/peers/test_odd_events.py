"""Events that come odd: malformed ones change nothing, repeated ones come once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.messages.peers import ArraySpec
from paceline.trainer.peers.events import Event, Inbox, _unpacked

sizes = st.integers(-3, 5) | st.sampled_from([2**31, 2**32, 2**62, 2**63])
dtypes = st.text(max_size=6) | st.sampled_from(["<f4", "|b1", "(1,", ",", "O", "i4,i4"])


@given(
    shape=st.lists(sizes, max_size=3).map(tuple),
    dtype=dtypes,
    payload=st.binary(max_size=80),
)
def test_any_array_is_as_it_says_or_none(
    shape: tuple[int, ...], dtype: str, payload: bytes
) -> None:
    found = _unpacked((ArraySpec(shape, dtype),), [np.frombuffer(payload, np.uint8)])
    if found is not None:
        [array] = found
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.tobytes()) == (shape, payload)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**62, 4), (0, 2**63), (1,) * 99])
def test_a_size_that_runs_over_is_refused(shape: tuple[int, ...]) -> None:
    payload = np.zeros(4 * (shape[0] == 1), np.uint8)
    assert _unpacked((ArraySpec(shape, "<f4"),), [payload]) is None


@pytest.mark.parametrize("dtype", ["(1,", ",", "O", "i4,i4", "f4", "2<f4", "<M8", "<f3"])
def test_what_is_no_dtype_of_numbers_is_refused(dtype: str) -> None:
    assert _unpacked((ArraySpec((0,), dtype),), [np.empty(0, np.uint8)]) is None


def test_who_had_to_join_again_repeats_what_is_known() -> None:
    inbox, event = Inbox(), Event("trainer-1", "t", b"x")
    inbox.put(event, since=4, number=1, num_bytes=1)
    assert inbox.verdict("trainer-1", since=4, number=1, num_bytes=1) == "known"
    assert inbox.verdict("trainer-1", since=6, number=1, num_bytes=1) == "room"
