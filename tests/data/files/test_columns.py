"""A column has one kind, chosen from its first texts, and never another."""

import math

import pytest
import torch

from paceline.data.files.columns import (
    Kind,
    blurred,
    choose_kind,
    parse_column,
    parse_numbers,
)


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
        (["-12345678901234567890", ""], str),
        ([" 12345678901234567890 ", "0.5"], str),
        (["0.5", "16777216"], torch.float32),
        (["0.5", "16777217"], torch.float64),
        (["1.0", "16777217.0"], torch.float64),
        (["0.5", "16777217.5"], torch.float32),
        (["0.5", "1e39"], torch.float64),
        (["0.5", "inf"], torch.float32),
        (["\u0661"], str),
    ],
)
def test_the_first_texts_choose_the_kind(texts: list[str], kind: Kind) -> None:
    assert choose_kind(texts) is kind


@pytest.mark.parametrize(
    ("texts", "kind", "found"),
    [
        (["0.1", "16777217"], torch.float32, "16777217"),
        (["0.1", "-16777217.0"], torch.float32, "-16777217.0"),
        (["16777216", "33554432", "16777217.25", "inf", "", "1e20"], torch.float32, None),
        (["", "1e39"], torch.float32, "1e39"),
        (["9007199254740992", "9007199254740993"], torch.float64, "9007199254740993"),
        (["9007199254740994", "1e300"], torch.float64, None),
        (["1e400"], torch.float64, "1e400"),
    ],
)
def test_a_whole_number_that_would_be_rounded_is_found(
    texts: list[str], kind: torch.dtype, found: str | None
) -> None:
    values = parse_column(texts, kind)
    assert isinstance(values, torch.Tensor)
    assert blurred(texts, values) == found


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
        ("\u0663", torch.int64),
        ("1.5", torch.int64),
        ("x", torch.float64),
        ("1_0", torch.float32),
        ("2147483648", torch.int32),
        ("9223372036854775808", torch.int64),
    ],
)
def test_what_is_no_such_number_is_refused(text: str, kind: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_numbers(["1", text], kind)
