"""A column has one kind, chosen from its first texts, and never another."""

import math

import pytest
import torch

from paceline.data.columns import Kind, choose_kind, parse_column, parse_text


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", "007"], torch.int64),
        (["1", "2.5", "1e3", "nan", ""], torch.float32),
        (["1", "", "3"], torch.float64),
        (["1", "x"], str),
        (["", ""], str),
        ([], str),
        (["1_000"], str),
        (["12345678901234567890"], str),
    ],
)
def test_the_first_texts_choose_the_kind(texts: list[str], kind: Kind) -> None:
    assert choose_kind(texts) is kind


def test_a_column_becomes_a_tensor_of_its_kind() -> None:
    whole = parse_column(["3", " 4"], torch.int32)
    assert isinstance(whole, torch.Tensor)
    assert (whole.dtype, whole.tolist()) == (torch.int32, [3, 4])
    fractions = parse_column(["1", ""], torch.float32)
    assert isinstance(fractions, torch.Tensor)
    assert fractions.dtype == torch.float32
    assert math.isnan(fractions[1])
    assert parse_column(["1", ""], str) == ["1", ""]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", torch.int64),
        ("1.5", torch.int64),
        ("x", torch.float64),
        ("1_0", torch.float32),
        ("2147483648", torch.int32),
        ("9223372036854775808", torch.int64),
    ],
)
def test_what_is_no_such_number_is_refused(text: str, kind: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_text(text, kind)
