"""Guards are written beside the options of a preset, refused where they mean nothing."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline.config import SSP, Async, DiLoCo, Guards, LocalSGD, Pace, Sync, parse_pace
from paceline.errors import UsageError
from paceline.pace_specs.auto import Auto

ages = st.integers(0, 10**6)
factors = st.floats(1e-6, 1e6, allow_subnormal=False)


@st.composite
def guards(draw: st.DrawFn) -> Guards:
    """Any guards."""
    drop = draw(st.none() | ages)
    given: dict[str, Any] = {
        "scale": draw(st.none() | factors),
        "drop": drop,
        "compensate": draw(st.none() | factors),
        "norm": draw(st.none() | st.floats(1.001, 1e6)),
        "warmup": draw(st.none() | st.integers(1, 10**6)),
    }
    if all(value is None for value in given.values()):
        given["warmup"] = 1
    old = "drop" if drop is None else draw(st.sampled_from(["drop", "again"]))
    return Guards(**given, old=old)  # type: ignore[arg-type]  # one of the two


@given(guards())
def test_guards_are_read_back_as_they_are_written(given: Guards) -> None:
    for pace in (Async(guards=given), SSP(staleness=3, guards=given)):
        assert parse_pace(str(pace)) == pace


@given(guards())
def test_guards_are_the_same_after_a_journey(given: Guards) -> None:
    pace: Pace = Async(guards=given)
    for form in (msgspec.json, msgspec.msgpack):
        assert form.decode(form.encode(pace), type=Pace) == pace


def test_a_pace_of_an_older_journal_has_no_guards() -> None:
    assert msgspec.json.decode(b'{"type":"sync"}', type=Pace) == Sync()


def test_guards_are_written_flat() -> None:
    text = "async:scale=1,drop=20,old=again,compensate=0.04,norm=6,warmup=200"
    expected = Guards(scale=1, drop=20, old="again", compensate=0.04, norm=6, warmup=200)
    assert parse_pace(text) == Async(guards=expected)
    assert str(Async(guards=expected)) == text
    assert paceline.Guards is Guards


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("async:scale=0", "scale is a number > 0, got 0.0"),
        ("async:scale=nan", "scale is a number > 0, got nan"),
        ("async:drop=-1", "drop is an age >= 0, in updates, got -1"),
        ("async:drop=1.5", "expected a whole number, got '1.5'"),
        ("async:drop=2,old=later", "old is 'drop' or 'again', got 'later'"),
        ("async:old=again", "old='again' without drop"),
        ("async:compensate=-1", "compensate is a number > 0"),
        ("async:norm=1", "norm is a multiple of the usual norm > 1, got 1.0"),
        ("async:warmup=0", "warmup is a number of updates >= 1, got 0"),
        ("sync:scale=1", "sync: scale: a round has no age"),
        ("sync:drop=3", "sync: drop: a round has no age"),
        ("sync:compensate=1", "sync: compensate: a round has no age"),
        ("local:5,drop=3", "local: drop: a round has no age"),
        ("local:5,warmup=3", "local: warmup: a round takes the mean"),
        ("diloco:5,scale=1", "diloco: scale: a round has no age"),
        ("async:isolation=hogwild,drop=3", "drop: with isolation=hogwild"),
        ("async:isolation=hogwild,compensate=1", "compensate: with isolation=hogwild"),
        ("async:merge=2,compensate=1", "makes one update of several"),
        ("async:push=2,pull=1,compensate=1", "values of different moments"),
        ("async:pull=2,compensate=1", "values of different moments"),
        ("async:codec=bf16,compensate=1", "codec=bf16 rounds"),
        ("ssp:2,codec=bf16,compensate=1", "codec=bf16 rounds"),
        ("async:pull=2,drop=3,old=again", "computed before it is known"),
        ("async:codec=top1%,drop=3,old=again", "would be trained again as well"),
        ("ssp:1,codec=int4,drop=3,old=again", "would be trained again as well"),
        ("auto:scale=1", "auto: scale: it begins in rounds"),
    ],
)
def test_guards_that_mean_nothing_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_pace(text)


def test_no_guard_at_all_is_written_by_leaving_them_out() -> None:
    with pytest.raises(UsageError, match="none is given; leave them out"):
        Guards()


@pytest.mark.parametrize(
    "pace",
    [
        Sync(backup=1, guards=Guards(norm=6, warmup=3)),
        Auto(guards=Guards(norm=6, warmup=3)),
        Async(codec="bf16", guards=Guards(drop=3, old="again")),
        LocalSGD(every=5, guards=Guards(norm=6)),
        DiLoCo(every=5, guards=Guards(norm=6, warmup=3)),
        Async(isolation="hogwild", guards=Guards(scale=1, norm=6, warmup=3)),
        Async(merge=4, guards=Guards(scale=1, drop=3, old="again")),
        Async(push_every=4, pull_every=8, guards=Guards(scale=1, drop=3)),
        Async(push_every=4, pull_every=4, guards=Guards(compensate=0.04)),
    ],
)
def test_guards_go_with_every_preset_that_gives_them_a_meaning(pace: Pace) -> None:
    assert parse_pace(str(pace)) == pace
