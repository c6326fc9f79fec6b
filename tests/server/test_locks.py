"""Locks: one holder, first come first served, no circle, and no end without a reason."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from paceline.server.locks import (
    MOST_REQUESTS,
    PATIENCE_S,
    LockAsk,
    LockAsker,
    LockEffect,
    LockGranted,
    LockRefused,
    LockTable,
    LockWaits,
    Revoked,
    _num_clear,
)

LEASE_S = 10.0


def validate(table: LockTable) -> None:
    """Assert that no two requests have the same row unless both are shared."""
    for row, stand in table._lines.items():
        line = stand if isinstance(stand, list) else [stand]
        assert isinstance(stand, list) == (len(line) > 1), f"row {row}: {line}"
        assert all((row in one.crowded) == (len(line) > 1) for one in line), row
        holders = [request for request in line if request.token]
        if any(not request.ask.is_shared for request in holders):
            assert len(holders) == 1, f"row {row} is held by {holders}"
        clear = _num_clear(line)
        for place, request in enumerate(line):
            assert not (request.token and place >= clear), f"row {row} was overtaken"
    for who, request in table._requests.items():
        blocked = sum(
            table._crowd(row).index(request) >= _num_clear(table._crowd(row))
            for row in request.crowded
        )
        assert blocked == request.num_blocked, f"{who} counts {request.num_blocked}"
        assert (request.token > 0) == (blocked == 0), f"{who} waits for nobody"
        assert not request.token or table._held[request.token] is request
    assert len(table._held) == sum(r.token > 0 for r in table._requests.values())
    assert sum(table._counts.values()) == len(table._requests)


def ask(incarnation: int, *ids: int, number: int = 1, shared: bool = False) -> LockAsk:
    """A request of a trainer that has the incarnation's number."""
    return LockAsk(
        LockAsker(incarnation, number), f"trainer-{incarnation}", ids, shared, LEASE_S
    )


def own(effects: list[LockEffect]) -> LockEffect:
    """What the asker is told."""
    return effects[-1]


def test_a_free_row_is_granted_at_once() -> None:
    locks = LockTable()
    assert locks.acquire(ask(1, 3, 7), 0.0) == [LockGranted(LockAsker(1, 1), 1)]
    validate(locks)


def test_a_request_waits_until_it_can_have_all_of_its_rows() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.acquire(ask(2, 4), 0.0)
    waits = own(locks.acquire(ask(3, 3, 4), 0.5))
    assert isinstance(waits, LockWaits)
    assert waits.reason == "trainer-1 holds row 3 since 0.5 s"
    assert locks.release(LockAsker(1, 1), 1.0) == []
    assert locks.release(LockAsker(2, 1), 1.0) == [LockGranted(LockAsker(3, 1), 3)]
    validate(locks)


def test_nobody_overtakes_who_waits_for_one_of_the_same_rows() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.acquire(ask(2, 3, 4), 0.0)
    late = own(locks.acquire(ask(3, 4), 0.5))
    reason = "trainer-2 waits before it for row 4 since 0.5 s"
    assert late == LockWaits(LockAsker(3, 1), reason, "trainer-2", late.since_s)
    assert own(locks.acquire(ask(4, 5), 0.5)) == LockGranted(LockAsker(4, 1), 2)


def test_readers_share_a_row_and_do_not_overtake_a_waiting_writer() -> None:
    locks = LockTable()
    assert isinstance(own(locks.acquire(ask(1, 3, shared=True), 0.0)), LockGranted)
    assert isinstance(own(locks.acquire(ask(2, 3, shared=True), 0.0)), LockGranted)
    assert isinstance(own(locks.acquire(ask(3, 3), 0.0)), LockWaits)
    assert isinstance(own(locks.acquire(ask(4, 3, shared=True), 0.0)), LockWaits)
    assert locks.release(LockAsker(1, 1), 1.0) == []
    assert locks.release(LockAsker(2, 1), 1.0) == [LockGranted(LockAsker(3, 1), 3)]
    assert locks.release(LockAsker(3, 1), 2.0) == [LockGranted(LockAsker(4, 1), 4)]


def test_who_asks_again_keeps_its_place_and_its_token() -> None:
    locks = LockTable()
    assert own(locks.acquire(ask(1, 3), 0.0)) == LockGranted(LockAsker(1, 1), 1)
    assert own(locks.acquire(ask(1, 3), 1.0)) == LockGranted(LockAsker(1, 1), 1)
    locks.acquire(ask(2, 3), 1.0)
    locks.acquire(ask(3, 3), 1.0)
    locks.acquire(ask(2, 3), 2.0)
    assert locks.release(LockAsker(1, 1), 3.0) == [LockGranted(LockAsker(2, 1), 2)]


def test_a_lease_that_runs_out_goes_to_the_next_and_its_token_is_good_for_nothing() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.acquire(ask(2, 3), LEASE_S - 1)
    assert locks.expire(LEASE_S - 0.1) == []
    revoked, granted = locks.expire(LEASE_S)
    assert revoked == Revoked(
        LockAsker(1, 1), "trainer-1 held row 3 for 10.0 s and was not heard of for 10 s"
    )
    assert granted == LockGranted(LockAsker(2, 1), 2)
    reason = locks.why_not_written(1, 1, [3])
    assert reason is not None
    assert "held row 3 for 10.0 s" in reason
    assert locks.why_not_written(2, 2, [3]) is None


def test_a_holder_that_is_heard_of_keeps_its_lock() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    for second in range(1, 100):
        locks.renew(LockAsker(1, 1), float(second))
        assert locks.expire(float(second)) == []
    assert locks.why_not_written(1, 1, [3]) is None


def test_who_waits_and_asks_no_more_holds_nobody_up() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.acquire(ask(2, 3), 0.0)
    locks.acquire(ask(3, 3), PATIENCE_S - 1)
    assert locks.expire(PATIENCE_S) == [
        Revoked(LockAsker(2, 1), f"trainer-2 did not ask again for {PATIENCE_S:g} s")
    ]
    assert locks.release(LockAsker(1, 1), PATIENCE_S) == [LockGranted(LockAsker(3, 1), 2)]


def test_the_dead_hold_nothing() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.acquire(ask(1, 4, number=2), 0.0)
    locks.acquire(ask(2, 3, 4), 0.0)
    effects = locks.fence(1, 1.0)
    assert effects[-1] == LockGranted(LockAsker(2, 1), 3)
    assert (
        locks.why_not_written(1, 1, [3]) == "token 1 is out of date: trainer-1 was given up"
    )
    validate(locks)


def test_a_request_that_comes_after_its_end_is_refused() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.release(LockAsker(1, 1), 1.0)
    assert own(locks.acquire(ask(1, 3), 2.0)) == LockRefused(
        LockAsker(1, 1), "lock 1 of trainer-1 is over"
    )
    assert not locks._requests


def test_a_write_that_waits_for_its_verdict_keeps_its_lock() -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3), 0.0)
    locks.bind(1)
    locks.acquire(ask(2, 3), 0.0)
    locks.release(LockAsker(1, 1), 1.0)
    locks.renew(LockAsker(2, 1), LEASE_S)
    assert locks.expire(LEASE_S + 1) == []
    assert locks.settle(1, LEASE_S + 2) == [LockGranted(LockAsker(2, 1), 2)]


@pytest.mark.parametrize(
    ("incarnation", "ids", "shared", "reason"),
    [
        (2, [3], False, "token 1 is out of date: it was let go"),
        (1, [3, 5], False, r"token 1 is of rows 3 to 4 \(2\), not of row 5"),
        (1, [3], True, "token 1 is of a shared lock, under which rows are only read"),
    ],
)
def test_a_write_needs_an_own_lock_of_all_its_rows(
    incarnation: int, ids: list[int], shared: bool, reason: str
) -> None:
    locks = LockTable()
    locks.acquire(ask(1, 3, 4, shared=shared), 0.0)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(locks.why_not_written(1, incarnation, ids))


def test_an_incarnation_has_so_many_requests_at_most() -> None:
    locks = LockTable()
    for number in range(1, MOST_REQUESTS + 1):
        locks.acquire(ask(1, number, number=number), 0.0)
    one_more = own(locks.acquire(ask(1, 0, number=MOST_REQUESTS + 1), 0.0))
    assert isinstance(one_more, LockRefused)
    assert "let some go first" in one_more.reason
    assert isinstance(own(locks.acquire(ask(2, 0), 0.0)), LockGranted)


INCARNATIONS = st.integers(1, 4)
ROWS = st.sets(st.integers(0, 4), min_size=1, max_size=3)


class LocksAgainstModel(RuleBasedStateMachine):
    """The model is a list of requests in the order they came, looked through each time."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.locks = LockTable()
        self.line: list[LockAsk] = []  # all that have or await rows, as they came
        self.heard_s: dict[LockAsker, float] = {}
        self.granted: dict[LockAsker, int] = {}
        self.granted_s: dict[LockAsker, float] = {}
        self.numbers = dict.fromkeys(range(1, 5), 0)
        self.last_token: dict[int, int] = {}  # {row: highest token so far}

    def may_have(self, place: int) -> bool:
        """Whether nobody before it would delay a request."""
        one = self.line[place]
        return not any(
            set(other.ids) & set(one.ids) and not (other.is_shared and one.is_shared)
            for other in self.line[:place]
        )

    def check(self, effects: list[LockEffect]) -> None:
        """All that were granted are those that the model grants, and no others."""
        for effect in effects:
            if isinstance(effect, Revoked):
                self.line = [one for one in self.line if one.who != effect.who]
                self.granted.pop(effect.who, None)
        for effect in effects:
            if isinstance(effect, LockGranted) and effect.who not in self.granted:
                one = next(one for one in self.line if one.who == effect.who)
                for row in one.ids:
                    assert effect.token > self.last_token.get(row, 0)
                for row in one.ids:
                    self.last_token[row] = effect.token
                self.granted[effect.who] = effect.token
                self.heard_s[effect.who] = self.now
        may_have = {one.who for p, one in enumerate(self.line) if self.may_have(p)}
        assert may_have == self.granted.keys()

    def expired(self) -> set[LockAsker]:
        """Who has not been heard of for too long."""
        return {
            one.who
            for one in self.line
            if self.heard_s[one.who] + (LEASE_S if one.who in self.granted else PATIENCE_S)
            <= self.now
        }

    @rule(incarnation=INCARNATIONS, rows=ROWS, shared=st.booleans())
    def ask_new(self, incarnation: int, rows: set[int], *, shared: bool) -> None:
        self.numbers[incarnation] += 1
        one = ask(
            incarnation, *sorted(rows), number=self.numbers[incarnation], shared=shared
        )
        gone = self.expired()
        effects = self.locks.acquire(one, self.now)
        assert {e.who for e in effects if isinstance(e, Revoked)} == gone
        self.line.append(one)
        self.heard_s[one.who] = self.now
        self.check(effects)
        assert isinstance(own(effects), LockGranted) == (one.who in self.granted)

    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        gone = self.expired()
        live = [one for one in self.line if one.who not in gone]
        if live:
            one = data.draw(st.sampled_from(live))
            token = self.granted.get(one.who)
            effects = self.locks.acquire(one, self.now)
            self.heard_s[one.who] = self.now
            self.check(effects)
            if token is not None:
                assert own(effects) == LockGranted(one.who, token)

    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        if self.line:
            one = data.draw(st.sampled_from(self.line))
            effects = self.locks.release(one.who, self.now)
            self.line.remove(one)
            self.granted.pop(one.who, None)
            self.check(effects)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        if self.line:
            one = data.draw(st.sampled_from(self.line))
            self.locks.renew(one.who, self.now)
            self.heard_s[one.who] = self.now

    @rule(incarnation=INCARNATIONS)
    def fence(self, incarnation: int) -> None:
        self.check(self.locks.fence(incarnation, self.now))
        assert all(one.who.incarnation != incarnation for one in self.line)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, PATIENCE_S, LEASE_S]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        gone = self.expired()
        effects = self.locks.expire(self.now)
        assert {e.who for e in effects if isinstance(e, Revoked)} == gone
        self.check(effects)

    @rule()
    def wait_for_the_first(self) -> None:
        """Whoever stands first has its rows: nobody waits for a circle."""
        assert not self.line or self.line[0].who in self.granted

    @invariant()
    def is_sound(self) -> None:
        validate(self.locks)


LocksAgainstModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestLocksAgainstModel = LocksAgainstModel.TestCase
