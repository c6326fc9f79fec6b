"""What a push is looked at for before it leaves."""

import pytest
import torch

from paceline.trainer.encoding.tensor_bytes import all_finite


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8])
def test_whole_numbers_are_finite_whatever_they_sum_to(dtype: torch.dtype) -> None:
    most = torch.iinfo(dtype).max
    assert all_finite([torch.full((4,), most, dtype=dtype)])


def test_a_sum_that_overflows_is_no_reason_to_refuse_its_terms() -> None:
    assert all_finite([torch.full((4,), 3e38)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_element_that_is_not_finite_is_found(value: float) -> None:
    assert not all_finite([torch.tensor([1, 2]), torch.tensor([1.0, value])])
