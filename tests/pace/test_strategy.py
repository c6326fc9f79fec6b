from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paceline
from paceline.config import SSP, Async, DiLoCo, LocalSGD, Pace, Sync
from paceline.errors import UsageError
from paceline.pace.policy import pull_from, push_from
from paceline.pace.strategy import ask_staleness, why_not_strategy

PACES: list[Pace] = [Sync(), SSP(staleness=2), Async(push_every=3, pull_every=6)]


class AsPreset(paceline.Strategy):
    """It replaces nothing."""

    def __init__(self, preset: Pace) -> None:
        self._preset = preset

    @property
    def preset(self) -> Pace:
        return self._preset


class Loosening(paceline.Strategy):
    preset: ClassVar[Pace] = SSP(staleness=0)

    def __init__(self, after: int, then: int) -> None:
        self.after, self.then = after, then

    def staleness(self, clock: int) -> int:
        return 0 if clock < self.after else self.then


class Pairs(paceline.Strategy):
    preset: ClassVar[Pace] = Async()

    def push_due(self, num_batches: int) -> bool:
        return num_batches >= 2


class PairsOfLocalSteps(Pairs):
    preset: ClassVar[Pace] = LocalSGD(every=4)


class PullingInRounds(paceline.Strategy):
    preset: ClassVar[Pace] = Sync()

    def pull_due(self, num_batches: int, *, has_pushed: bool) -> bool:
        return has_pushed and num_batches > 3


class BoundWithoutClocks(Loosening):
    preset: ClassVar[Pace] = Async()


@given(st.sampled_from(PACES), st.integers(1, 12), st.booleans())
def test_what_is_not_replaced_is_the_presets_answer(
    pace: Pace, batches: int, has_pushed: bool
) -> None:
    plain = AsPreset(pace)
    assert plain.push_due(batches) == (batches >= push_from(pace))
    pulls = batches >= pull_from(pace, has_pushed=has_pushed)
    assert plain.pull_due(batches, has_pushed=has_pushed) == pulls


def test_a_bound_may_depend_on_the_clock() -> None:
    strategy = Loosening(after=10, then=4)
    assert [ask_staleness(strategy, clock) for clock in (0, 9, 10, 99)] == [0, 0, 4, 4]
    assert ask_staleness(AsPreset(SSP(staleness=3)), 7) == 3


@pytest.mark.parametrize("answer", [-1, 1.5, True, None])
def test_a_bound_that_is_no_number_of_steps_is_an_error_that_shows_it(
    answer: object,
) -> None:
    strategy = Loosening(after=0, then=answer)  # type: ignore[arg-type]  # as users do
    with pytest.raises(UsageError, match=r"Loosening\(.*\).staleness\(5\): expected"):
        ask_staleness(strategy, 5)


def test_trainers_agree_on_the_class_and_its_attributes() -> None:
    assert str(Loosening(1, 2)) == "Loosening(after=1, then=2)"
    assert str(Loosening(1, 2)) != str(Loosening(1, 3))


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (BoundWithoutClocks(0, 1), "never asked with async"),
        (PullingInRounds(), "a round brings its values"),
        (PairsOfLocalSteps(), "say so many steps in the preset"),
    ],
)
def test_what_would_never_be_asked_is_refused(
    strategy: paceline.Strategy, reason: str
) -> None:
    why = why_not_strategy(strategy, overlap=False)
    assert why is not None
    assert reason in why


def test_gradients_that_leave_early_are_not_for_a_strategy_that_holds_them_back() -> None:
    assert why_not_strategy(Loosening(0, 1), overlap=True) is None
    why = why_not_strategy(Pairs(), overlap=True)
    assert why is not None
    assert "Pairs.push_due" in why


def test_a_preset_alone_is_always_possible() -> None:
    for pace in [*PACES, DiLoCo(every=4)]:
        assert why_not_strategy(AsPreset(pace), overlap=True) is None
