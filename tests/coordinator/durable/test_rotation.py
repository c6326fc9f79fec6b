"""The ring: which cell is next, for whom, and why a trainer must wait."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paceline.coordinator.durable.queue import LeaseRecord, Queue
from paceline.coordinator.durable.rotation import Choice, Round, decide_cell, plan_keepers
from paceline.ids import TaskKey
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import Lease


def rotation(parts: int, blocks: int, slices: int = 2) -> RotationSpec:
    return RotationSpec(0, parts, blocks, (1,) * (parts * blocks), slices)


class Ring:
    """A queue of cells, and trainers that work on them by hand."""

    def __init__(self, spec: RotationSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed
        self.queue = Queue()
        self.members: dict[str, int] = {}
        self.lost: list[int] = []  # cells of the dead that wait for servers' marks
        self.done: Counter[int] = Counter()
        self.order: dict[int, list[int]] = {}  # {block: data parts, as they had it}
        self.way: dict[int, list[int]] = {}  # {data part: blocks, as it had them}
        self._tokens = 0
        self._incarnations = 0

    def join(self, trainer: str) -> None:
        self._incarnations += 1
        self.members[trainer] = self._incarnations

    def choose(self, trainer: str) -> Choice:
        return decide_cell(self.spec, self.seed, self.queue, trainer, self.members)

    def ask(self, trainer: str) -> int | None:
        """Lease what is to be had; the cell."""
        task = self.choose(trainer).task
        if task is None:
            return None
        self._tokens += 1
        key = TaskKey(0, self.queue.epoch, task)
        lease = Lease(self._tokens, key, 0)
        self.queue.lend(task, LeaseRecord(lease, trainer, self.members[trainer]))
        self.queue.keepers[self.spec.cell_of(task)[0]] = trainer
        return task

    def held(self, trainer: str) -> list[int]:
        return list(self.queue.held_by(self.members[trainer]))

    def finish(self, trainer: str) -> int:
        """End the cell that was leased first."""
        task = self.held(trainer)[0]
        part, block = self.spec.cell_of(task)
        self.queue.close(task)
        self.done[task] += 1
        self.order.setdefault(block, []).append(part)
        self.way.setdefault(part, []).append(block)
        return task

    def carry(self, trainer: str) -> None:
        task = self.held(trainer)[0]
        self.queue.put_back(task)
        self.queue.visits[task] = self.queue.visits.get(task, 0) + 1

    def die(self, trainer: str) -> None:
        for task in self.held(trainer):
            self.queue.take_back(task)
            self.lost.append(task)
        del self.members[trainer]

    def settle(self) -> None:
        for task in self.lost:
            self.queue.put_back(task)
        self.lost = []

    def is_over(self) -> bool:
        return self.queue.num_done() == self.spec.num_cells()

    def next_round(self) -> None:
        self.queue.next_epoch()
        self.done.clear()
        self.order.clear()
        self.way.clear()

    def run_in_step(self) -> int:
        """All trainers compute equally fast; how often one of them has nothing to do."""
        idle = 0
        while not self.is_over():
            for trainer in self.members:
                while self.ask(trainer) is not None:
                    pass
            working = [trainer for trainer in self.members if self.held(trainer)]
            idle += len(self.members) - len(working)
            for trainer in working:
                self.finish(trainer)
        return idle


@pytest.mark.parametrize("trainers", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("slices", [1, 2])
def test_equally_fast_trainers_never_wait_and_follow_the_ring(
    trainers: int, slices: int
) -> None:
    ring = Ring(rotation(trainers, slices * trainers, slices))
    for number in range(trainers):
        ring.join(f"trainer-{number}")
    for _ in range(5):
        assert ring.run_in_step() == 0
        assert set(ring.done.values()) == {1}
        followed = {tuple(rotated(parts, min(parts))) for parts in ring.order.values()}
        assert len(followed) == 1  # every block goes round in the same order
        ring.next_round()


def test_a_block_that_ends_a_step_has_a_whole_step_to_travel() -> None:
    ring = Ring(rotation(4, 8))
    for number in range(4):
        ring.join(f"trainer-{number}")
    leased_at: dict[int, tuple[int, str]] = {}  # {block: step in which it was over, where}
    gaps = []
    for step in range(8):
        for trainer in ring.members:
            while (task := ring.ask(trainer)) is not None:
                block = ring.spec.cell_of(task)[1]
                if block in leased_at:
                    gaps.append(len(ring.held(trainer)) - 1)
        for trainer in ring.members:
            block = ring.spec.cell_of(ring.finish(trainer))[1]
            leased_at[block] = (step, trainer)
    assert set(gaps) == {1}  # its next holder computes on another one meanwhile


def test_every_round_has_an_order_of_its_own_from_the_seed() -> None:
    def way(seed: int, rounds: int) -> list[dict[int, list[int]]]:
        ring = Ring(rotation(4, 8), seed)
        ring.join("trainer-0")
        ways = []
        for _ in range(rounds):
            ring.run_in_step()
            ways.append(dict(ring.way))
            ring.next_round()
        return ways

    first, second = way(seed=1, rounds=2)
    assert first != second
    assert way(seed=1, rounds=2) == [first, second]
    assert way(seed=2, rounds=1) != [first]


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4), st.data())
@settings(max_examples=40, deadline=None)
def test_each_part_and_block_has_its_order_whoever_works(
    parts: int, blocks: int, trainers: int, data: st.DataObject
) -> None:
    alone = Ring(rotation(parts, blocks))
    alone.join("trainer-0")
    alone.run_in_step()
    ring = Ring(rotation(parts, blocks))
    for number in range(trainers):
        ring.join(f"trainer-{number}")
    while not ring.is_over():
        trainer = data.draw(st.sampled_from(sorted(ring.members)))
        if ring.ask(trainer) is None and ring.held(trainer):
            ring.finish(trainer)
    assert ring.order == alone.order
    assert ring.way == alone.way


def test_a_trainer_keeps_its_parts_and_a_joiner_has_its_share_next_round() -> None:
    ring = Ring(rotation(4, 8))
    ring.join("trainer-0")
    ring.run_in_step()
    assert set(ring.queue.keepers.values()) == {"trainer-0"}
    ring.next_round()
    for _ in range(8):
        ring.ask("trainer-0")
        ring.finish("trainer-0")
    before = dict(ring.queue.keepers)
    ring.join("trainer-1")
    with_others = "all 4 data parts are with others"
    assert ring.choose("trainer-1") == Choice(None, with_others, ("trainer-0",))
    ring.run_in_step()
    assert ring.queue.keepers == before
    ring.next_round()
    ring.run_in_step()
    assert Counter(ring.queue.keepers.values()) == {"trainer-0": 2, "trainer-1": 2}
    after = dict(ring.queue.keepers)
    ring.next_round()
    ring.run_in_step()
    assert ring.queue.keepers == after


def test_parts_of_the_dead_are_adopted_and_the_others_stay() -> None:
    ring = Ring(rotation(3, 6))
    for number in range(3):
        ring.join(f"trainer-{number}")
    ring.run_in_step()
    before = dict(ring.queue.keepers)
    ring.next_round()
    ring.ask("trainer-1")
    ring.die("trainer-1")
    ring.settle()
    ring.run_in_step()
    after = ring.queue.keepers
    assert set(ring.done.values()) == {1}
    assert all(after[p] == t for p, t in before.items() if t != "trainer-1")
    assert set(after.values()) == {"trainer-0", "trainer-2"}


def test_who_waits_is_told_for_which_block_and_with_whom_it_is() -> None:
    ring = Ring(rotation(2, 2))
    ring.join("trainer-0")
    ring.join("trainer-1")
    first, second = ring.ask("trainer-0"), ring.ask("trainer-1")
    assert first is not None
    assert second is not None
    block = ring.spec.cell_of(second)[1]
    assert (
        ring.choose("trainer-0").reason
        == f"block {block} is with trainer-1, for data part 1"
    )
    ring.finish("trainer-1")
    assert ring.ask("trainer-0") is not None
    assert ring.choose("trainer-0").reason == "trainer-0 holds 2 cells"


def test_a_cell_whose_time_was_over_comes_back_behind_the_others() -> None:
    ring = Ring(rotation(1, 4))
    ring.join("trainer-0")
    first = ring.ask("trainer-0")
    ring.carry("trainer-0")
    tasks = []
    while not ring.is_over():
        tasks.append(ring.ask("trainer-0"))
        ring.finish("trainer-0")
    assert tasks[-1] == first
    assert len(tasks) == 4


def rotated(items: list[int], first: int) -> list[int]:
    place = items.index(first)
    return items[place:] + items[:place]


class Rotating(RuleBasedStateMachine):
    """Trainers come, die, run out of time; every cell once a round, and no two holders."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = Ring(rotation(1, 1))
        self.is_begun = False
        self.num = 0

    @precondition(lambda self: not self.is_begun)
    @rule(
        parts=st.integers(1, 4),
        blocks=st.integers(1, 6),
        slices=st.integers(1, 3),
        seed=st.integers(-5, 5),
    )
    def begin(self, parts: int, blocks: int, slices: int, seed: int) -> None:
        self.ring, self.is_begun = Ring(rotation(parts, blocks, slices), seed), True

    @precondition(lambda self: self.is_begun and len(self.ring.members) < 5)
    @rule()
    def join(self) -> None:
        self.ring.join(f"trainer-{self.num}")
        self.num += 1

    @precondition(lambda self: self.ring.members)
    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        trainer = data.draw(st.sampled_from(sorted(self.ring.members)))
        self.ring.ask(trainer)

    def _holders(self) -> list[str]:
        return [trainer for trainer in self.ring.members if self.ring.held(trainer)]

    @precondition(lambda self: self._holders())
    @rule(data=st.data(), carries=st.booleans())
    def end_cell(self, data: st.DataObject, carries: bool) -> None:
        trainer = data.draw(st.sampled_from(self._holders()))
        if carries and sum(self.ring.queue.visits.values()) < 10:
            self.ring.carry(trainer)
        else:
            self.ring.finish(trainer)

    @precondition(lambda self: self.ring.members)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.ring.die(data.draw(st.sampled_from(sorted(self.ring.members))))

    @rule()
    def settle(self) -> None:
        self.ring.settle()

    @precondition(lambda self: self.is_begun and self.ring.is_over())
    @rule()
    def next_round(self) -> None:
        assert set(self.ring.done.values()) == {1}
        self.ring.next_round()

    @invariant()
    def no_two_hold_a_block_or_a_part(self) -> None:
        blocks: dict[int, int] = {}
        parts: dict[int, int] = {}
        for task, record in self.ring.queue.pending.items():
            part, block = self.ring.spec.cell_of(task)
            assert blocks.setdefault(block, task) == task
            assert parts.setdefault(part, record.incarnation) == record.incarnation

    @invariant()
    def no_cell_is_lost_or_done_twice(self) -> None:
        assert all(times == 1 for times in self.ring.done.values())
        assert self.ring.queue.num_done() == len(self.ring.done)

    @invariant()
    def somebody_can_go_on(self) -> None:
        ring = self.ring
        if not ring.members or ring.lost or ring.is_over() or ring.queue.pending:
            return
        assert any(ring.choose(trainer).task is not None for trainer in ring.members)

    @invariant()
    def shares_are_even_once_a_round_begins(self) -> None:
        ring = self.ring
        if not ring.members or ring.queue.next_fresh:
            return
        rounds = Round(ring.spec, ring.seed, ring.queue)
        keepers = plan_keepers(ring.spec, rounds, ring.queue, ring.members)
        counts = Counter(keepers.values())
        sizes = [counts[trainer] for trainer in ring.members]
        assert sorted(keepers) == list(range(ring.spec.parts))
        assert max(sizes) - min(sizes) <= 1


Rotating.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestRotating: Any = Rotating.TestCase
