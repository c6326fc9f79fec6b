"""Codecs keep what they promise, and refuse what is no code."""

import contextlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from paceline.errors import UsageError
from paceline.params.codecs.codec import Bytes, Codec, Float32s
from paceline.params.codecs.halves import BF16, FP16
from paceline.params.codecs.int4 import STRETCH as INT4_STRETCH
from paceline.params.codecs.int4 import Int4
from paceline.params.codecs.int8 import STRETCH, Int8
from paceline.params.codecs.top import STRETCH as TOP_STRETCH
from paceline.params.codecs.top import Top

CODECS: dict[str, Codec] = {
    "fp16": FP16,
    "bf16": BF16,
    "int8": Int8(),
    "int4": Int4(),
    "top10%": Top(Fraction(1, 10)),
}
TINY = float(np.finfo(np.float32).tiny)
ROUND = float(np.finfo(np.float32).eps)

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e4, 1e4, width=32)
blocks = npst.arrays(np.float32, st.integers(0, 40), elements=finite)
rows = npst.arrays(np.float32, npst.array_shapes(min_dims=2, max_dims=2), elements=finite)


def there_and_back(codec: Codec, values: Float32s) -> Float32s:
    coded = np.empty(codec.coded_bytes(values.size), np.uint8)
    codec.encode(values, coded)
    decoded = np.full_like(values, np.nan)
    codec.decode(coded, decoded)
    return decoded


def rows_there_and_back(codec: Codec, values: Float32s) -> Float32s:
    coded = np.empty(codec.coded_row_bytes(*values.shape), np.uint8)
    codec.encode_rows(values, coded)
    decoded = np.full_like(values, np.nan)
    codec.decode_rows(coded, decoded)
    return decoded


def drawn(num: int, seed: int = 0) -> Float32s:
    return np.random.default_rng(seed).standard_normal(num).astype(np.float32)


@given(values=npst.arrays(np.float32, 20, elements=st.floats(-65504, 65504, width=32)))
def test_fp16_is_numpys_own_rounding(values: Float32s) -> None:
    expected = values.astype(np.float16).astype(np.float32)
    assert there_and_back(FP16, values).tobytes() == expected.tobytes()


@given(values=blocks)
def test_bf16_is_the_upper_half_of_a_float32_rounded_to_even(values: Float32s) -> None:
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    expected = rounded.astype(np.uint32).view(np.float32)
    beyond = np.isinf(expected)
    found = there_and_back(BF16, values)
    assert found[~beyond].tobytes() == expected[~beyond].tobytes()
    assert (np.abs(found[beyond]) == np.float32(3.3895314e38)).all()


@pytest.mark.parametrize(
    ("codec", "greatest"), [(FP16, 65504.0), (BF16, 3.3895313892515355e38)]
)
def test_what_no_half_can_hold_becomes_the_greatest_that_one_can(
    codec: Codec, greatest: float
) -> None:
    limit = np.float32(codec.limit)
    below = np.nextafter(limit, np.float32(0))
    values = np.array([limit, -limit, below, np.inf, -np.inf, np.nan, 3.4e38], np.float32)
    found = there_and_back(codec, values)
    expected = [greatest, -greatest, greatest, np.inf, -np.inf, np.nan, greatest]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


@pytest.mark.parametrize("codec", [FP16, BF16], ids=["fp16", "bf16"])
def test_any_piece_of_halves_is_the_code_of_that_piece(codec: Codec) -> None:
    values = drawn(30)
    rows = there_and_back(codec, values[10:20].copy())
    assert np.array_equal(there_and_back(codec, values)[10:20], rows)
    again = there_and_back(codec, rows)
    assert np.array_equal(again, rows), "what was rounded once is not rounded again"


def int8_bound(values: Float32s) -> float:
    """Half a scale, and a little for the rounding of the scale itself."""
    greatest = float(np.abs(values.astype(np.float64)).max(initial=0))
    return greatest / 254 * (1 + 600 * ROUND) + 127 * TINY


@given(values=rows)
def test_int8_is_within_half_a_scale_of_every_row(values: Float32s) -> None:
    decoded = rows_there_and_back(Int8(), values)
    assert np.isfinite(decoded).all()
    for row, found in zip(values, decoded, strict=True):
        error = np.abs(row.astype(np.float64) - found)
        assert error.max(initial=0) <= int8_bound(row)


@given(values=blocks)
def test_int8_is_within_half_a_scale_of_a_short_block(values: Float32s) -> None:
    error = np.abs(values.astype(np.float64) - there_and_back(Int8(), values))
    assert error.max(initial=0) <= int8_bound(values)


def test_int8_of_a_scale_that_nobody_has_made_is_refused() -> None:
    coded = np.full(Int8().coded_bytes(2), 124, np.uint8)
    coded[:4] = np.frombuffer(np.float32(3e38).tobytes(), np.uint8)
    with pytest.raises(UsageError, match=r"expected scales .* got 3e\+38"):
        Int8().decode(coded, np.empty(2, np.float32))


def test_a_great_element_spoils_the_digits_of_its_stretch_alone() -> None:
    values = drawn(3 * STRETCH + 7)
    values[5] = 1e6
    decoded = there_and_back(Int8(), values)
    for start in range(0, len(values), STRETCH):
        stretch = slice(start, start + STRETCH)
        error = np.abs(values[stretch] - decoded[stretch]).max()
        assert error <= int8_bound(values[stretch])
        assert (error > 1) == (start == 0)


def test_int8_of_a_large_block_is_that_of_its_stretches() -> None:
    values = drawn(300 * STRETCH + 1)
    decoded = there_and_back(Int8(), values)
    for start in (0, 255 * STRETCH, 256 * STRETCH, 300 * STRETCH):
        stretch = values[start : start + STRETCH].copy()
        assert np.array_equal(there_and_back(Int8(), stretch), decoded[start:][:STRETCH])


@given(values=blocks)
def test_int4_is_within_half_of_its_scale(values: Float32s) -> None:
    error = np.abs(values.astype(np.float64) - there_and_back(Int4(), values))
    greatest = float(np.abs(values.astype(np.float64)).max(initial=0))
    assert error.max(initial=0) <= greatest / 14 * (1 + 600 * ROUND) + 7 * TINY


@pytest.mark.parametrize("num", [1, 2, 7, INT4_STRETCH - 1, INT4_STRETCH, 3 * 4096 + 5])
def test_int4_of_whole_multiples_of_a_scale_is_exact(num: int) -> None:
    values = np.arange(num, dtype=np.float32) % 15 - 7
    values[::INT4_STRETCH] = -7
    assert np.array_equal(there_and_back(Int4(), 0.25 * values), 0.25 * values)


def test_a_great_element_spoils_the_levels_of_128_elements_alone() -> None:
    values = drawn(3 * INT4_STRETCH + 7)
    values[INT4_STRETCH + 5] = 1e6
    error = np.abs(values - there_and_back(Int4(), values))
    assert error[INT4_STRETCH : 2 * INT4_STRETCH].max() > 1
    error[INT4_STRETCH : 2 * INT4_STRETCH] = 0
    assert error.max() < 0.5


@given(values=rows)
def test_int4_leaves_rows_as_they_are(values: Float32s) -> None:
    assert rows_there_and_back(Int4(), values).tobytes() == values.tobytes()


def slow_top(values: Float32s, share: Fraction, stretch: int) -> Float32s:
    """The twin: one stretch after the other, a stable sort."""
    found = np.zeros_like(values)
    for start in range(0, len(values), stretch):
        some = values[start : start + stretch]
        order = np.argsort(-np.abs(some), kind="stable")
        kept = order[: math.ceil(share * len(some))]
        found[start + kept] = some[kept]
    return found


@settings(max_examples=30, deadline=None)
@given(
    num=st.sampled_from([0, 1, 7, 100, TOP_STRETCH, TOP_STRETCH + 1, 66 * TOP_STRETCH]),
    percent=st.fractions(Fraction(1, 100), 100, max_denominator=100),
    levels=st.sampled_from([1, 3, 1000, 10**7]),
    seed=st.integers(0, 5),
)
def test_top_keeps_the_greatest_and_of_equal_ones_the_first(
    num: int, percent: Fraction, levels: int, seed: int
) -> None:
    share = percent / 100
    draw = np.random.default_rng(seed)
    values = draw.integers(-levels, levels, num, endpoint=True).astype(np.float32)
    found = there_and_back(Top(share), values)
    assert np.array_equal(found, slow_top(values, share, TOP_STRETCH))


@given(values=blocks)
def test_top_of_everything_is_everything(values: Float32s) -> None:
    assert np.array_equal(there_and_back(Top(Fraction(1)), values), values)


@given(values=rows)
def test_top_leaves_rows_as_they_are(values: Float32s) -> None:
    found = rows_there_and_back(Top(Fraction(1, 100)), values)
    assert found.tobytes() == values.tobytes()


def test_a_hundredth_takes_a_sixty_fourth_of_the_bytes() -> None:
    num = 100 * TOP_STRETCH
    assert Top(Fraction(1, 100)).coded_bytes(num) == 100 * 41 * 6
    assert Int8().coded_bytes(num) == num + 4 * 400
    assert Int4().coded_bytes(num) == num // 2 + 4 * 3200
    assert FP16.coded_bytes(num) == BF16.coded_bytes(num) == 2 * num


@pytest.mark.parametrize("name", CODECS)
@given(coded=npst.arrays(np.uint8, st.integers(0, 60)), num=st.integers(0, 40))
def test_strange_bytes_are_refused_or_decoded_in_place(
    name: str, coded: Bytes, num: int
) -> None:
    memory = np.full(num + 16, 7, np.float32)
    with np.errstate(all="ignore"):
        try:
            CODECS[name].decode(coded, memory[8 : 8 + num])
        except UsageError:
            pass
        else:
            assert coded.nbytes == CODECS[name].coded_bytes(num)
    assert (memory[:8] == 7).all()
    assert (memory[8 + num :] == 7).all()


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_bytes_of_the_right_size_never_reach_beyond(name: str, data: st.DataObject) -> None:
    num = data.draw(st.integers(1, 50))
    codec = CODECS[name]
    size = codec.coded_bytes(num)
    coded = data.draw(npst.arrays(np.uint8, size))
    memory = np.full(num + 16, 7, np.float32)
    with np.errstate(all="ignore"):
        if name in {"top10%", "int8", "int4"}:  # of other bytes some are refused
            with contextlib.suppress(UsageError):
                codec.decode(coded, memory[8 : 8 + num])
        else:
            codec.decode(coded, memory[8 : 8 + num])
    assert (memory[:8] == 7).all()
    assert (memory[8 + num :] == 7).all()


@pytest.mark.parametrize("name", CODECS)
def test_a_code_of_another_size_is_refused_by_its_size(name: str) -> None:
    codec = CODECS[name]
    size = codec.coded_bytes(20)
    with pytest.raises(UsageError, match=f"expected {size} bytes, got {size + 1}"):
        codec.decode(np.zeros(size + 1, np.uint8), np.zeros(20, np.float32))
    size = codec.coded_row_bytes(5, 4)
    with pytest.raises(UsageError, match=f"expected {size} bytes, got {size - 1}"):
        codec.decode_rows(np.zeros(size - 1, np.uint8), np.zeros((5, 4), np.float32))


@pytest.mark.parametrize("places", [[3, 3], [4, 3], [3, 20], [65535, 2]])
def test_an_element_that_is_not_there_or_named_twice_is_refused(places: list[int]) -> None:
    code = [np.ones(2, np.float32).view(np.uint8), np.array(places, np.uint16)]
    coded = np.concatenate([part.view(np.uint8) for part in code])
    with pytest.raises(UsageError, match=r"distinct ascending elements of 0\.\.19"):
        Top(Fraction(1, 10)).decode(coded, np.zeros(20, np.float32))


@pytest.mark.parametrize("name", CODECS)
def test_no_element_and_no_row_take_no_byte(name: str) -> None:
    codec = CODECS[name]
    assert codec.coded_bytes(0) == 0
    assert codec.coded_row_bytes(0, 8) == 0
    assert len(there_and_back(codec, np.empty(0, np.float32))) == 0
    assert rows_there_and_back(codec, np.empty((0, 8), np.float32)).shape == (0, 8)
