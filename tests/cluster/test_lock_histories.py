"""Locks over two servers in virtual time: real decisions of both ends, drawn misfortune.

Trainers take rows over both servers, are frozen or die holding them, and write what they
read plus one. Each write must have read the write before it, and everybody comes to an end.
Bugs that such systems have had are put back one at a time: each is noticed.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np
import pytest

from paceline.errors import LockTimeout
from paceline.ids import COORDINATOR, OF_NO_BATCH
from paceline.messages.data import Push
from paceline.messages.locking import KeepLocks, Lock, Locked, RowSlots
from paceline.messages.shared import Done, Waiting
from paceline.messages.trainer import Beaten
from paceline.messages.waits import Wait
from paceline.server.held_pushes import HeldPushes
from paceline.server.locks import LockGranted, LockTable
from paceline.server.requests.contents import PushContents, TableGradients
from paceline.trainer.acts import Ask, Asking, Pause
from paceline.trainer.protocol import tables as lock_acts
from paceline.trainer.protocol.tables import take_locks

NUM_TRAINERS, NUM_LOCKS, NUM_ROWS, LEASE_S = 4, 25, 4, 3.0
LONGEST_WAIT_S = 40.0  # three others, each with a lease and what may be found out late
GIVEN_UP_S = 5.0  # after a death
SEEDS = range(12)


class OverlapError(AssertionError):
    """Somebody wrote who had not read the write before."""


class EndlessWaitError(AssertionError):
    """Somebody waited for longer than the others can have taken."""


def server_of(row: int) -> str:
    return f"server-{row % 2}"


@final
class World:
    """Two servers, their rows, and trainers that come one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.locks = {f"server-{n}": HeldPushes(lambda: self.now) for n in range(2)}
        self.values = dict.fromkeys(range(NUM_ROWS), 0)
        self.tokens = dict.fromkeys(range(NUM_ROWS), 0)
        self.longest_s = 0.0
        self.lost = self.died = 0
        self._queue: list[tuple[float, int, Iterator[float]]] = []
        self._number = 0
        self._next_incarnation = 1
        for index in range(NUM_TRAINERS):
            self.begin(f"trainer-{index}", NUM_LOCKS)

    def begin(self, trainer: str, num_locks: int, after_s: float = 0.0) -> None:
        incarnation, self._next_incarnation = (
            self._next_incarnation,
            self._next_incarnation + 1,
        )
        self._place(Trainer(self, trainer, incarnation, num_locks).run(), after_s)

    def run(self) -> None:
        while self._queue:
            self.now, _, script = heapq.heappop(self._queue)
            for locks in self.locks.values():
                locks.expire()
            pause_s = next(script, None)
            if pause_s is not None:
                self._place(script, pause_s)

    def fence(self, incarnation: int) -> None:
        for locks in self.locks.values():
            locks.fence(incarnation)

    def _place(self, script: Iterator[float], after_s: float) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + after_s, self._number, script))


@final
class Trainer:
    """One incarnation: a script that yields how long it takes to the next moment."""

    def __init__(
        self, world: World, trainer: str, incarnation: int, num_locks: int
    ) -> None:
        self.world, self.trainer, self.num_locks = world, trainer, num_locks
        self.asking = Asking(patience_s=1e9)
        self.asking.incarnation = incarnation
        self._seen: dict[int, int] = {}

    def run(self) -> Iterator[float]:
        world, rows = self.world, range(NUM_ROWS)
        for number in range(1, self.num_locks + 1):
            wanted = sorted(world.random.sample(rows, world.random.randint(1, 3)))
            tokens: dict[str, int] = {}
            began_s = world.now
            yield from self._take(wanted, number, tokens)
            world.longest_s = max(world.longest_s, world.now - began_s)
            luck = world.random.random()
            if luck < 0.05:
                world.died += 1
                yield from self._die(number)
                return
            yield LEASE_S * 2 if luck < 0.2 else 0.2
            self._write(wanted, number, tokens)

    def _take(
        self, wanted: list[int], number: int, tokens: dict[str, int]
    ) -> Iterator[float]:
        locks = {}
        for server in sorted({server_of(row) for row in wanted}, reverse=True):
            ids = [row for row in wanted if server_of(row) == server]
            locks[server] = Lock(
                incarnation=self.asking.incarnation,
                timeline=0,
                part=0,
                number=number,
                rows=RowSlots("t", (0,), (len(ids),)),
                is_shared=False,
                lease_s=LEASE_S,
            )
        act = take_locks(self.asking, locks, LONGEST_WAIT_S)
        replies: Any = None
        while True:
            self.asking.now_s = self.world.now
            try:
                asked = act.send(replies)
            except StopIteration as done:
                tokens.update(done.value)
                return
            except LockTimeout as late:
                raise EndlessWaitError(str(late)) from late
            if isinstance(asked, Pause):
                yield asked.seconds
                replies = {}
                continue
            assert isinstance(asked, Ask)
            yield 0.05 * self.world.random.random()
            replies = {
                role: self._answer(role, one, wanted) for role, one in asked.calls.items()
            }
            if any(isinstance(one, Waiting) for one in replies.values()):
                yield 0.5  # parked
            self._keep(number, locks)

    def _answer(self, role: str, asked: Any, wanted: list[int]) -> Any:
        if role == COORDINATOR:
            return Beaten(timeline=0)
        if not isinstance(asked, Lock):
            return Done()
        ids = np.array([row for row in wanted if server_of(row) == role])
        effect = self.world.locks[role].ask(asked, self.trainer, ids)
        if not isinstance(effect, LockGranted):
            return Waiting(wait=Wait("lock", effect.reason))
        self._seen |= {int(row): self.world.values[int(row)] for row in ids}
        return Locked(token=effect.token)

    def _keep(self, number: int, locks: dict[str, Lock]) -> None:
        sign = KeepLocks(
            incarnation=self.asking.incarnation, timeline=0, numbers={0: (number,)}
        )
        for server in locks:
            self.world.locks[server].keep(sign)

    def _die(self, number: int) -> Iterator[float]:
        world = self.world
        world.begin(self.trainer, self.num_locks - number, GIVEN_UP_S)
        yield GIVEN_UP_S
        world.fence(self.asking.incarnation)

    def _write(self, wanted: list[int], number: int, tokens: dict[str, int]) -> None:
        world = self.world
        for server, token in tokens.items():
            ids = np.array([row for row in wanted if server_of(row) == server])
            push = Push(
                incarnation=self.asking.incarnation,
                timeline=0,
                part=0,
                number=number,
                window=OF_NO_BATCH,
                records=0,
                token=token,
            )
            values = np.zeros((len(ids), 1), np.float32)
            rows = TableGradients("t", ids, values, False, (0,), (0, len(ids)))
            contents = PushContents((), {}, {}, [rows])
            if world.locks[server].why_lost(push, contents) is not None:
                world.lost += 1
                continue
            for row in map(int, ids):
                if world.values[row] != self._seen[row] or token <= world.tokens[row]:
                    raise OverlapError(f"row {row} was {self._seen[row]} to {self.trainer}")
                world.values[row], world.tokens[row] = self._seen[row] + 1, token
            world.locks[server].settle(0, token)


def run_all() -> list[World]:
    """All seeds, one after the other, to their ends."""
    worlds = [World(seed) for seed in SEEDS]
    for world in worlds:
        world.run()
    return worlds


def test_each_write_has_read_the_write_before_and_nobody_waits_for_ever() -> None:
    worlds = run_all()
    assert sum(world.lost for world in worlds) > 50
    assert sum(world.died for world in worlds) > 10
    assert max(world.longest_s for world in worlds) < LONGEST_WAIT_S


def token_not_checked(patch: pytest.MonkeyPatch) -> None:
    """Whoever had a lock once may write."""
    patch.setattr(LockTable, "why_not_written", lambda *_: None)


def locks_kept_by_the_dead(patch: pytest.MonkeyPatch) -> None:
    """A lock ends when its holder says so, and not otherwise."""
    patch.setattr(LockTable, "expire", lambda *_: [])
    patch.setattr(LockTable, "fence", lambda *_: [])


def servers_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """Each trainer asks the servers in an order of its own."""
    draw = random.Random(0)

    def shuffled(locks: Any) -> list[str]:
        return draw.sample(list(locks), len(locks))

    patch.setattr(lock_acts, "sorted", shuffled, raising=False)


def readers_and_writers_overtake(patch: pytest.MonkeyPatch) -> None:
    """Whoever comes is granted if nobody holds the rows just now, or even if."""
    patch.setattr("paceline.server.locks._num_clear", len)


@pytest.mark.parametrize(
    ("bug", "noticed"),
    [
        (token_not_checked, OverlapError),
        (locks_kept_by_the_dead, EndlessWaitError),
        (servers_in_any_order, EndlessWaitError),
        (readers_and_writers_overtake, OverlapError),
    ],
)
def test_bugs_that_such_systems_have_had_are_noticed(
    bug: Callable[[pytest.MonkeyPatch], None],
    noticed: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    with pytest.raises(noticed):
        run_all()
