"""What a quorum is said as, what it means, and what it does not go beside."""

import msgspec
import pytest

from paceline.config import SSP, Async, DiLoCo, LocalSGD, Pace, Sync, parse_pace
from paceline.errors import UsageError
from paceline.pace.policy import (
    carries_over,
    grace_of,
    is_in_step,
    quorum_of,
    updates_in_rounds,
    why_not_beside,
)


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("diloco:50,quorum=2", DiLoCo(every=50, quorum=2)),
        ("diloco:50,quorum=2,grace=auto", DiLoCo(every=50, quorum=2)),
        ("diloco:50,quorum=1,grace=2.5", DiLoCo(every=50, quorum=1, grace=2.5)),
        (
            "diloco:5,lr=0.5,quorum=3,grace=0",
            DiLoCo(every=5, outer_lr=0.5, quorum=3, grace=0.0),
        ),
    ],
)
def test_a_quorum_is_read_written_and_sent(text: str, pace: DiLoCo) -> None:
    assert parse_pace(text) == pace
    assert parse_pace(str(pace)) == pace
    sent = msgspec.msgpack.encode(pace)
    assert msgspec.msgpack.decode(sent, type=Pace) == pace


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("diloco:50,quorum=0", "quorum is a number of trainers >= 1, got 0"),
        ("diloco:50,grace=2", "grace=2.0 without quorum: a round waits for all"),
        ("diloco:50,quorum=1,grace=-1", "grace is 'auto' or seconds >= 0, got -1.0"),
        ("diloco:50,quorum=1,grace=long", "expected a number, got 'long'"),
        ("diloco:50,backup=1", "trains them again: use quorum"),
        ("local:20,quorum=2", "diloco:20,lr=1,momentum=0 is local:20"),
        ("sync:quorum=2", "sync has no option quorum"),
    ],
)
def test_what_means_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_pace(text)


def test_only_with_a_quorum_a_push_goes_into_a_later_round() -> None:
    decoupled = DiLoCo(every=50, quorum=2, grace=1.0)
    assert (quorum_of(decoupled), grace_of(decoupled)) == (2, 1.0)
    assert carries_over(decoupled)
    assert updates_in_rounds(decoupled)
    assert not is_in_step(decoupled)
    for pace in (Sync(), Sync(backup=1), LocalSGD(every=5), DiLoCo(every=5)):
        assert not carries_over(pace)
        assert is_in_step(pace)
    assert not is_in_step(Async())


def test_a_quorum_goes_with_one_part_in_rounds() -> None:
    decoupled = DiLoCo(every=50, quorum=2)
    assert why_not_beside([decoupled]) is None
    assert why_not_beside([Async(), decoupled]) is None
    reason = why_not_beside([decoupled, decoupled])
    assert reason is not None
    assert "quorum goes with one part in rounds" in reason
    assert why_not_beside([SSP(staleness=1), decoupled]) is not None
