"""`auto` loosens while trainers wait, tightens when the loss alarms, never in a hurry."""

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import SSP, Async, Auto, Pace, Sync, parse_pace
from paceline.errors import UsageError
from paceline.pace.auto import FEWEST_BEFORE, RECENT, Change, Governor, steps_of

AUTO = Auto(least_s=10.0)
STEPS = steps_of(AUTO)


class Job:
    """Four trainers under a governor; what it decides is done at once."""

    def __init__(self, auto: Auto = AUTO) -> None:
        self.now = 0.0
        self.governor = Governor(auto, 0.0)
        self.pace: Pace = steps_of(auto)[0]
        self.changes: list[tuple[float, Change]] = []

    def run(self, seconds: float, *, share: float = 0.0, loss: float | None = 1.0) -> None:
        """Half a second at a time: trainers wait for that share, one number is logged."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.5
            self.governor.passed(self.now, 4)
            self.governor.waited(4 * 0.5 * share)
            self.governor.logged(loss)
            change = self.governor.decide(self.now, self.pace)
            if change is not None:
                self.pace = change.pace
                self.changes.append((self.now, change))


def test_its_steps_are_those_of_the_docs_and_end_where_it_is_told() -> None:
    told = ["sync", "ssp:1", "ssp:3", "ssp:8", "async"]
    assert [str(pace) for pace in STEPS] == told
    shorter = steps_of(Auto(loosest="ssp:3", reduce="sum", codec="bf16"))
    assert [str(pace) for pace in shorter] == [
        "sync:reduce=sum,codec=bf16",
        "ssp:1,codec=bf16",
        "ssp:3,codec=bf16",
    ]


def test_it_loosens_step_by_step_while_trainers_wait() -> None:
    job = Job()
    job.run(41.0, share=0.5)
    assert [moment for moment, _ in job.changes] == [10.0, 20.0, 30.0, 40.0]
    assert [change.pace for _, change in job.changes] == list(STEPS[1:])
    assert job.changes[0][1].reason == "trainers waited 50% of 10 s"
    job.run(100.0, share=0.5)
    assert job.pace == Async(), "there is nothing looser"


def test_it_stays_while_trainers_hardly_wait() -> None:
    job = Job()
    job.run(300.0, share=0.15)
    assert not job.changes


def test_a_loss_that_rises_tightens_and_the_same_waiting_does_not_undo_it_at_once() -> None:
    job = Job()
    job.run(31.0, share=0.5)
    assert job.pace == SSP(staleness=8)
    job.run(10.0, share=0.5, loss=3.0)
    moment, change = job.changes[-1]
    assert (moment, change.pace) == (40.0, SSP(staleness=3))
    assert change.reason.startswith("loss rose to 3, expected 1.0")
    job.run(18.5, share=0.5)
    assert job.changes[-1] == (moment, change), "held for twice as long"
    job.run(10.0, share=0.5)
    assert job.pace == SSP(staleness=8)


def test_a_number_that_is_not_finite_is_an_alarm() -> None:
    job = Job()
    job.run(11.0, share=0.5)
    job.run(10.0, share=0.5, loss=None)
    assert job.pace == Sync()
    assert job.changes[-1][1].reason == "loss is not finite"


def test_a_push_that_was_too_large_is_an_alarm() -> None:
    job = Job()
    job.run(21.0, share=0.5)
    assert job.pace == SSP(staleness=3)
    job.governor.refused(12.5)
    job.run(10.0, share=0.5)
    assert job.pace == SSP(staleness=1)
    assert job.changes[-1][1].reason == "a push had a norm of 12.5"


def test_noise_is_no_alarm() -> None:
    governor = Governor(AUTO, 0.0)
    for number in range(200):
        governor.logged(1.0 + 0.1 * (-1) ** number)
        governor.passed(number + 1.0, 4)
        assert governor.decide(number + 1.0, SSP(staleness=3)) is None


def test_a_pace_of_somebody_elses_choice_stays() -> None:
    governor = Governor(AUTO, 0.0)
    governor.passed(50.0, 4)
    governor.waited(150.0)
    assert governor.decide(50.0, Async(push_every=4)) is None


class Spell(NamedTuple):
    seconds: float
    share: float
    loss: float | None


spells = st.builds(
    Spell,
    st.floats(0.5, 60.0),
    st.floats(0.0, 1.0),
    st.one_of(st.none(), st.floats(-10.0, 1e6)),
)


@given(st.lists(spells, max_size=8), st.sampled_from(["sync", "ssp:1", "ssp:8", "async"]))
def test_it_never_changes_faster_than_it_may_nor_by_more_than_a_step(
    found: list[Spell], loosest: str
) -> None:
    auto = Auto(least_s=10.0, loosest=loosest)  # type: ignore[arg-type]  # one of them
    job, steps = Job(auto), steps_of(auto)
    for spell in found:
        job.run(spell.seconds, share=spell.share, loss=spell.loss)
    moments = [0.0, *(moment for moment, _ in job.changes)]
    assert all(b - a >= 10.0 for a, b in itertools.pairwise(moments))
    paces = [steps[0], *(change.pace for _, change in job.changes)]
    for one, other in itertools.pairwise(paces):
        assert abs(steps.index(one) - steps.index(other)) == 1
    assert all(change.reason for _, change in job.changes)


@given(st.integers(0, len(STEPS) - 1), st.floats(0.0, 1.0))
def test_alarms_that_persist_end_at_sync(step: int, share: float) -> None:
    job = Job()
    job.run(10.0 * step + 1.0, share=0.9)
    assert job.pace == STEPS[step]
    job.run(15.0, share=0.0)
    for _ in range(len(STEPS)):
        job.run(10.0, share=share, loss=None)
    assert job.pace == Sync()


def test_a_loss_that_stays_high_alarms_until_the_pace_is_sync() -> None:
    job = Job()
    job.run(41.0, share=0.5)
    assert job.pace == Async()
    job.run(45.0, share=0.5, loss=9.0)
    assert job.pace == Sync()


def test_nothing_alarms_before_there_is_something_to_compare_with() -> None:
    governor = Governor(AUTO, 0.0)
    for number in range(FEWEST_BEFORE + RECENT - 2):
        governor.logged(float(10**number))
    governor.passed(10.0, 4)
    assert governor.decide(10.0, SSP(staleness=3)) is None


@pytest.mark.parametrize(
    "text",
    ["auto", "auto:wait=0.3,least=5.0,loosest=ssp:3,watch=norm,alarm=4.0,reduce=sum"],
)
def test_it_is_read_back_as_it_is_written(text: str) -> None:
    assert str(parse_pace(text)) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("auto:wait=1.5", "wait is a share between 0 and 1, got 1.5"),
        ("auto:least=0", "least is a number of seconds > 0"),
        ("auto:loosest=ssp:4", "loosest is one of sync, ssp:1, ssp:3, ssp:8, async"),
        ("auto:watch=", "watch is the name of a logged number"),
        ("auto:alarm=-1", "alarm is a number of deviations > 0"),
        ("auto:reduce=min", "reduce is 'mean' or 'sum'"),
        ("auto:staleness=3", "auto has no option staleness"),
    ],
)
def test_what_it_cannot_be_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_pace(text)
