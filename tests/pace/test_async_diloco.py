"""Deltas that are applied one by one: how it is said, and what it means."""

import msgspec
import pytest

from paceline.config import Async, AsyncDiLoCo, DiLoCo, Pace, Sync, parse_pace
from paceline.errors import UsageError
from paceline.messages.shared import OptimizerSpec, ParameterSpec, PartSpec
from paceline.pace.changing import why_not_change, with_pace
from paceline.pace.policy import (
    adapts_steps,
    outer_kind,
    outer_step,
    pull_from,
    push_from,
    steps_locally,
    updates_in_rounds,
    why_not_beside,
)

PACE = AsyncDiLoCo(every=5, delay=3)


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("async-diloco:50", AsyncDiLoCo(every=50)),
        ("async-diloco:50,delay=2,adapt=no", AsyncDiLoCo(every=50, delay=2, adapt=False)),
        ("async-diloco:50,adapt=yes", AsyncDiLoCo(every=50)),
        (
            "async-diloco:5,lr=0.1,momentum=0.5,codec=bf16",
            AsyncDiLoCo(every=5, outer_lr=0.1, outer_momentum=0.5, codec="bf16"),
        ),
    ],
)
def test_it_is_read_written_and_sent(text: str, pace: AsyncDiLoCo) -> None:
    assert parse_pace(text) == pace
    assert parse_pace(str(pace)) == pace
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(pace), type=Pace) == pace


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("async-diloco", "expected a number, like async-diloco:50"),
        ("async-diloco:0", "every is a number of batches >= 1, got 0"),
        ("async-diloco:5,delay=0", "delay is a number of deltas >= 1, got 0"),
        ("async-diloco:5,lr=0", "lr is a number > 0, got 0.0"),
        ("async-diloco:5,momentum=1", "momentum is a number from 0 to below 1, got 1.0"),
        ("async-diloco:5,adapt=maybe", "adapt is yes or no"),
        ("async-diloco:5,quorum=2", "no delta waits for another: use diloco"),
    ],
)
def test_what_means_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_pace(text)


def test_trainers_step_and_servers_apply_each_delta_by_itself() -> None:
    assert steps_locally(PACE)
    assert not updates_in_rounds(PACE)
    assert outer_kind(PACE) == "DelayedNesterov"
    assert outer_step(PACE) == {"lr": 0.7, "momentum": 0.9, "delay": 3}
    assert push_from(PACE) == 5
    assert pull_from(PACE, has_pushed=True) <= 0
    assert pull_from(PACE, has_pushed=False) > 100, "a delta begins where values came"


def test_only_where_it_adapts_slower_trainers_take_fewer() -> None:
    assert adapts_steps(PACE) == 5
    assert adapts_steps(AsyncDiLoCo(every=5, adapt=False)) is None
    assert adapts_steps(DiLoCo(every=5)) is None


def test_it_goes_beside_any_pace() -> None:
    for other in (Sync(), Async(), DiLoCo(every=7), AsyncDiLoCo(every=2)):
        assert why_not_beside([PACE, other]) is None


def test_a_running_job_keeps_the_kind_of_its_outer_steps() -> None:
    adam = OptimizerSpec("Adam", ({"lr": 0.1},))
    spec = PartSpec(0, (ParameterSpec(("w",), (8,), "float32"),), adam, (), Async())
    decoupled = with_pace(spec, PACE)
    assert decoupled.optimizer is not None
    assert decoupled.optimizer.kind == "DelayedNesterov"
    assert with_pace(decoupled, Async()).optimizer == adam
    reason = why_not_change([decoupled], {0: DiLoCo(every=5)})
    assert reason is not None
    assert "outer steps of another kind" in reason
