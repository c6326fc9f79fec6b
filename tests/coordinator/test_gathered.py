"""Where servers end with the coordinator, what steps have done is journalled in groups."""

from collections.abc import Sequence
from typing import Any

import pytest

from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import (
    AnyOutcome,
    EpochEnded,
    RoundCommitted,
    StopRequested,
)
from paceline.coordinator.storage import MOST_GATHERED, MOST_RECORDS, Keeper
from paceline.errors import StoreFull
from paceline.events import EventLog
from paceline.timing import ManualClock

GATHER_S = 0.25


class Groups:
    """A journal that remembers how many records came together."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.num_records = 0
        self.is_full = False

    def append(self, bodies: Sequence[bytes]) -> int:
        if self.is_full:
            raise StoreFull("full", "here", "the disk is full")
        self.groups.append(len(bodies))
        return sum(self.groups)

    def compact(self, _: bytes) -> int:
        return 0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def journal() -> Groups:
    return Groups()


@pytest.fixture
def keeper(journal: Groups, clock: ManualClock) -> Keeper:
    as_journal: Any = journal
    return Keeper(as_journal, clock, EventLog(), GATHER_S)


def round_(number: int) -> AnyOutcome:
    return RoundCommitted(0, number, (), (), ())


def test_rounds_lie_until_their_time_is_over(
    keeper: Keeper, journal: Groups, clock: ManualClock
) -> None:
    for number in range(3):
        assert keeper.keep([round_(number)])
    assert journal.groups == []
    clock.advance(GATHER_S)
    assert keeper.keep([])
    assert journal.groups == [3]


def test_what_others_build_upon_is_journalled_behind_what_lies(
    keeper: Keeper, journal: Groups
) -> None:
    keeper.keep([round_(1)])
    assert keeper.keep([round_(2), EpochEnded(0, 0)])
    assert keeper.keep([StopRequested("enough")])
    assert journal.groups == [3, 1]


def test_no_more_lie_than_a_group_may_have(keeper: Keeper, journal: Groups) -> None:
    for number in range(MOST_GATHERED):
        keeper.keep([round_(number)])
    assert sum(journal.groups) == MOST_GATHERED


def test_what_a_full_disk_refuses_comes_again_once(
    keeper: Keeper, journal: Groups, clock: ManualClock
) -> None:
    keeper.keep([round_(1)])
    journal.is_full = True
    clock.advance(GATHER_S)
    assert not keeper.keep([round_(2)])
    assert not keeper.keep([round_(2)]), "it is held, and tried again"
    journal.is_full = False
    assert keeper.keep([round_(2)])
    assert journal.groups == [2]


def test_the_last_of_them_are_journalled(keeper: Keeper, journal: Groups) -> None:
    keeper.keep([round_(1)])
    assert keeper.keep([], is_last=True)
    assert keeper.keep([], is_last=True)
    assert journal.groups == [1]


def test_a_long_journal_is_compacted_only_while_nothing_lies(
    keeper: Keeper, journal: Groups, clock: ManualClock
) -> None:
    def keep(*outcomes: AnyOutcome) -> bool:
        keeper.keep(outcomes)
        return keeper.is_long

    journal.num_records = MOST_RECORDS + 1
    assert not keep(round_(1)), "what lies would be replayed on a state that has it"
    clock.advance(GATHER_S)
    assert keep()
    keeper.compact(Durable())
    assert not keep(round_(2))


def test_elsewhere_each_event_is_journalled_before_it_is_told(
    journal: Groups, clock: ManualClock
) -> None:
    as_journal: Any = journal
    keeper = Keeper(as_journal, clock, EventLog())
    keeper.keep([round_(1)])
    keeper.keep([round_(2)])
    assert journal.groups == [1, 1]
