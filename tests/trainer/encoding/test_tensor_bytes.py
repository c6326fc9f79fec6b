"""What a push is looked at for before it leaves, and its bytes."""

import pytest
import torch

from paceline.trainer.encoding.tensor_bytes import SMALL, all_finite, byte_array, packed


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8])
def test_whole_numbers_are_finite_whatever_they_sum_to(dtype: torch.dtype) -> None:
    most = torch.iinfo(dtype).max
    assert all_finite([torch.full((4,), most, dtype=dtype)])


def test_a_sum_that_overflows_is_no_reason_to_refuse_its_terms() -> None:
    assert all_finite([torch.full((4,), 3e38)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_element_that_is_not_finite_is_found(value: float) -> None:
    assert not all_finite([torch.tensor([1, 2]), torch.tensor([1.0, value])])


def test_tensors_are_packed_as_their_bytes_whatever_their_size_and_dtype() -> None:
    tensors = {
        0: torch.arange(6.0).view(2, 3),
        2: torch.arange(4, dtype=torch.bfloat16),
        3: torch.randn(SMALL + 1),
        5: torch.randn(7),
        6: torch.randn(0),
        7: torch.tensor(4.0),
        9: torch.randn(3, dtype=torch.bfloat16),
    }
    found = packed(tensors)
    assert found.stretches.keys() == tensors.keys()
    for index, tensor in tensors.items():
        array, start, stop = found.stretches[index]
        assert array[start:stop].tobytes() == byte_array(tensor).tobytes()
    assert found.own.keys() == {3}
    assert sum(copy.numel() for copy in found.copies) == 6 + 4 + 7 + 1 + 3


def test_what_is_packed_alone_is_its_own_memory_and_copies_are_not() -> None:
    alone, first, second = (torch.zeros(2) for _ in range(3))
    assert packed({0: alone}).own[0] is alone
    found = packed({0: first, 1: second})
    first += 1
    array, start, stop = found.stretches[0]
    assert not array[start:stop].any()
