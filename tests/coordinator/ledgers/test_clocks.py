"""The clocks of trainers with work, and the slowest of them."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paceline.coordinator.ledgers.clocks import Clocks
from paceline.messages.shared import TrainerClock


class Held:
    """Which lease each holder has entered with."""

    def __init__(self, entries: dict[int, int] | None = None) -> None:
        self.entries = entries or {}

    def does_hold(self, incarnation: int) -> bool:
        return incarnation in self.entries

    def num_holders(self) -> int:
        return len(self.entries)

    def entry_of(self, incarnation: int) -> int | None:
        return self.entries.get(incarnation)


def entered(clocks: Clocks, held: Held, incarnation: int, entry: int) -> tuple[int, int]:
    """A trainer gets its first lease."""
    found = clocks.enter(incarnation, entry, held)
    held.entries[incarnation] = entry
    return found


def test_a_joiner_starts_at_the_slowest_clock() -> None:
    clocks, held = Clocks(is_whole=True), Held()
    assert entered(clocks, held, 1, 10) == (0, 0)
    entered(clocks, held, 2, 11)
    clocks.tell(1, TrainerClock(10, 7), held)
    clocks.tell(2, TrainerClock(11, 5), held)
    assert entered(clocks, held, 3, 12) == (5, 5)


def test_who_holds_nothing_holds_nobody_up() -> None:
    clocks, held = Clocks(is_whole=True), Held()
    entered(clocks, held, 1, 10)
    entered(clocks, held, 2, 11)
    clocks.tell(2, TrainerClock(11, 9), held)
    assert clocks.slowest(held) == 0
    del held.entries[1]
    assert clocks.slowest(held) == 9


def test_who_goes_from_one_task_to_the_next_keeps_its_clock() -> None:
    clocks, held = Clocks(is_whole=True), Held()
    entered(clocks, held, 1, 10)
    entered(clocks, held, 2, 11)
    clocks.tell(1, TrainerClock(10, 2), held)
    clocks.tell(2, TrainerClock(11, 5), held)
    del held.entries[1]  # its task is done, and in the same decision it gets another
    assert clocks.slowest(held) == 5
    assert entered(clocks, held, 1, 12) == (2, 2)


def test_who_was_without_work_for_a_while_enters_at_the_slowest() -> None:
    clocks, held = Clocks(is_whole=True), Held()
    entered(clocks, held, 1, 10)
    entered(clocks, held, 2, 11)
    clocks.tell(2, TrainerClock(11, 5), held)
    del held.entries[1]
    clocks.drop_idle(held)
    assert entered(clocks, held, 1, 12) == (5, 5)


def test_what_a_trainer_said_before_it_entered_anew_is_out_of_date() -> None:
    clocks, held = Clocks(is_whole=True), Held()
    entered(clocks, held, 1, 10)
    clocks.tell(1, TrainerClock(10, 30), held)
    entered(clocks, held, 2, 11)
    clocks.clear()
    held.entries.clear()
    assert entered(clocks, held, 2, 12) == (0, 0)
    clocks.tell(1, TrainerClock(10, 31), held)  # it holds nothing now
    assert entered(clocks, held, 1, 13) == (0, 0)
    clocks.tell(1, TrainerClock(10, 32), held)  # a beat that was long on its way
    assert clocks.slowest(held) == 0


def test_after_a_restart_nobody_is_slowest_until_all_have_told_their_clocks() -> None:
    clocks, held = Clocks(is_whole=False), Held({1: 10, 2: 11})
    clocks.tell(1, TrainerClock(10, 3), held)
    assert clocks.slowest(held) is None
    clocks.tell(2, TrainerClock(9, 8), held)  # of an entry before the one in the journal
    assert clocks.slowest(held) is None
    clocks.tell(2, TrainerClock(11, 4), held)
    assert clocks.slowest(held) == 3


class StalenessGate(RuleBasedStateMachine):
    """Trainers that come, step, run out of work and go; never more than 2 ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.clocks, self.held = Clocks(is_whole=True), Held()
        self.steps: dict[int, int] = {}  # of the holders
        self.tokens = 0

    @rule(incarnation=st.integers(1, 6))
    def works(self, incarnation: int) -> None:
        if incarnation not in self.held.entries:
            self.tokens += 1
            clock, slowest = entered(self.clocks, self.held, incarnation, self.tokens)
            assert slowest <= clock
            if self.steps:
                assert slowest == min(*self.steps.values(), clock)
            self.steps[incarnation] = clock
            return
        if self.steps[incarnation] - min(self.steps.values()) <= 2:
            self.steps[incarnation] += 1
            told = TrainerClock(self.held.entries[incarnation], self.steps[incarnation])
            self.clocks.tell(incarnation, told, self.held)

    @precondition(lambda self: self.steps)
    @rule(data=st.data(), dies=st.booleans())
    def stops(self, data: st.DataObject, dies: bool) -> None:
        incarnation = data.draw(st.sampled_from(sorted(self.steps)))
        del self.steps[incarnation], self.held.entries[incarnation]
        if dies:
            self.clocks.leave(incarnation)
        self.clocks.drop_idle(self.held)

    @invariant()
    def the_slowest_is_a_holder(self) -> None:
        expected = min(self.steps.values()) if self.steps else None
        assert self.clocks.slowest(self.held) == expected

    @invariant()
    def nobody_is_further_ahead_than_allowed(self) -> None:
        if self.steps:
            assert max(self.steps.values()) - min(self.steps.values()) <= 3


TestMarching = StalenessGate.TestCase
TestMarching.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
