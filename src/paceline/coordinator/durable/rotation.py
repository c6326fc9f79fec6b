"""Which cell of a rotation a trainer gets next, and why it must wait.

The round's seeded permutation puts data parts on seats and blocks on places of a ring::

    place    0   1   2   3   4   5        blocks, in the order of this round
    seat     0       1       2            data parts
    step k   seat s is at place s * blocks / parts + k

So a block comes to seat s, some steps later to seat s - 1, and so on: to every data part
once a round. A cell may be leased when all that comes before it, of its data part and of
its block, is over: each part then goes over the blocks in its order, each block over the
parts in its order, and what is computed is the same for any number of trainers, whoever
dies, and whenever. Nobody can wait for ever: of the cells that are left, the one with the
least (step, seat) waits for none.

Of two trainers never more than one has a data part, or a block. One trainer may hold two
cells of a part: while it computes on the first, the second's block travels. Parts stay with
their keeper; see `plan_keepers`. A cell that was carried over (its time was up) takes its
step again when the others have had theirs.

Pure. Source: Harp's rotator and scheduler ("dymoro"); there the order is drawn by a master,
and a death ends the job.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np

from paceline.coordinator.durable.queue import Queue
from paceline.data.order import records_at
from paceline.messages.rotation import RotationSpec

_SALT = 0x0B10C


class Choice(NamedTuple):
    """The cell that may be leased now; None, and what it waits for, and whom."""

    task: int | None
    reason: str
    whom: tuple[str, ...] = ()


class _Ring(NamedTuple):
    """One round's order."""

    seats: tuple[int, ...]  # of each data part
    places: tuple[int, ...]  # of each block
    blocks: tuple[int, ...]  # at each place


class _Step(NamedTuple):
    """When a cell is visited; what comes first of a part, or of a block, is the least."""

    step: int
    seat: int


@lru_cache(maxsize=4)
def _ring(parts: int, blocks: int, seed: int, epoch: int) -> _Ring:
    seats = records_at(np.arange(parts), parts, seed, epoch, shuffle=True)
    places = records_at(np.arange(blocks), blocks, seed ^ _SALT, epoch, shuffle=True)
    in_order = np.argsort(places)
    return _Ring(tuple(seats.tolist()), tuple(places.tolist()), tuple(in_order.tolist()))


@final
class Round:
    """The cells of the current round, and how far each is."""

    def __init__(self, rotation: RotationSpec, seed: int, queue: Queue) -> None:
        self._rotation, self._queue = rotation, queue
        self._ring = _ring(rotation.parts, rotation.blocks, seed, queue.epoch)
        self._num_passes = 1 + max(queue.visits.values(), default=0)

    def _is_settling(self, task: int) -> bool:
        """Whether a cell that is not over was with somebody who is lost."""
        queue = self._queue
        if task >= queue.next_fresh or task in queue.pending:
            return False
        return not queue.is_returned(task)

    def step_of(self, task: int) -> _Step:
        """When a cell is visited."""
        rotation, ring = self._rotation, self._ring
        part, block = rotation.cell_of(task)
        seat = ring.seats[part]
        begin = seat * rotation.blocks // rotation.parts
        lap = (ring.places[block] - begin) % rotation.blocks
        return _Step(lap + rotation.blocks * self._queue.visits.get(task, 0), seat)

    def num_left(self, part: int) -> int:
        """Cells of a data part that are not over."""
        rotation = self._rotation
        first = rotation.task_of(part, 0)
        return sum(
            not self._queue.is_done(task) for task in range(first, first + rotation.blocks)
        )

    def is_begun(self, part: int) -> bool:
        """Whether a cell of a data part was leased in this round."""
        queue, rotation = self._queue, self._rotation
        for block in range(rotation.blocks):
            task = rotation.task_of(part, block)
            if queue.is_done(task) or task in queue.pending or queue.visits.get(task):
                return True
        return False

    def next_of(self, part: int, incarnation: int) -> int | None:
        """The cell of a data part behind those that its holder has; None: there is none."""
        rotation, queue = self._rotation, self._queue
        seat = self._ring.seats[part]
        begin = seat * rotation.blocks // rotation.parts
        for lap in range(self._num_passes):
            for step in range(rotation.blocks):
                place = (begin + step) % rotation.blocks
                task = rotation.task_of(part, self._ring.blocks[place])
                if queue.visits.get(task, 0) != lap or queue.is_done(task):
                    continue
                held = queue.pending.get(task)
                if held is None or held.incarnation != incarnation:
                    return task
        return None

    def why_not(self, task: int) -> Choice | None:
        """Why a cell may not be leased, though its part's turn has come; None if it may."""
        rotation, queue = self._rotation, self._queue
        part, block = rotation.cell_of(task)
        if (held := queue.pending.get(task)) is not None:
            return _held(f"data part {part}", held.trainer)
        if self._is_settling(task):
            return Choice(None, "servers fence a lost trainer")
        mine = self.step_of(task)
        for other_part in range(rotation.parts):
            other = rotation.task_of(other_part, block)
            if other == task or queue.is_done(other):
                continue
            if (held := queue.pending.get(other)) is not None:
                return _held(
                    f"block {block}", held.trainer, f", for data part {other_part}"
                )
            if self._is_settling(other):
                reason = f"block {block} was with a lost trainer, whom servers fence"
                return Choice(None, reason)
            if self.step_of(other) < mine:
                keeper = queue.keepers.get(other_part)
                by = keeper or "nobody yet"
                reason = f"block {block} comes to data part {other_part} first ({by})"
                return Choice(None, reason, () if keeper is None else (keeper,))
        return None


def decide_cell(
    rotation: RotationSpec,
    seed: int,
    queue: Queue,
    trainer: str,
    members: Mapping[str, int],
) -> Choice:
    """The next cell for a trainer, one of ``members``: {trainer: incarnation}."""
    held = queue.held_by(members[trainer])
    if len(held) >= rotation.slices:
        return Choice(None, f"{trainer} holds {len(held)} cells")
    rounds = Round(rotation, seed, queue)
    keepers = plan_keepers(rotation, rounds, queue, members)
    mine = sorted(part for part, keeper in keepers.items() if keeper == trainer)
    if not mine:
        others = tuple(sorted(set(keepers.values())))
        return Choice(None, f"all {rotation.parts} data parts are with others", others)
    found = [rounds.next_of(part, members[trainer]) for part in mine]
    waits = []
    for task in sorted((task for task in found if task is not None), key=rounds.step_of):
        held_up = rounds.why_not(task)
        if held_up is None:
            return Choice(task, "it is the next of the ring")
        waits.append(held_up)
    if waits:
        return waits[0]
    last = tuple(sorted(queue.holders() - {trainer})) or (trainer,)
    return Choice(None, f"the round's last cells are with {', '.join(last)}", last)


def _held(what: str, trainer: str, why: str = "") -> Choice:
    return Choice(None, f"{what} is with {trainer}{why}", (trainer,))


def plan_keepers(
    rotation: RotationSpec, rounds: Round, queue: Queue, members: Collection[str]
) -> dict[int, str]:
    """Who works on which data part: {part: trainer}.

    Who had a cell of a part last keeps it. Parts of those who are gone go to whoever has
    the fewest cells left. Where trainers keep unequally many, parts that this round has not
    begun move: a joiner has its share from the next round on. As long as the same trainers
    take part, it comes to the same.
    """
    keepers = {part: t for part, t in queue.keepers.items() if t in members}
    is_balanced = _is_even(Counter(keepers.values()), members)
    if is_balanced and len(keepers) == rotation.parts:
        return keepers
    parts_of: dict[str, list[int]] = {trainer: [] for trainer in sorted(members)}
    for part, trainer in sorted(keepers.items()):
        parts_of[trainer].append(part)
    left = {t: sum(map(rounds.num_left, parts)) for t, parts in parts_of.items()}
    for part in range(rotation.parts):
        if part not in keepers:
            least = min(parts_of, key=lambda t: (left[t], len(parts_of[t]), t))
            parts_of[least].append(part)
            left[least] += rounds.num_left(part)
    movable = {part for part in range(rotation.parts) if not rounds.is_begun(part)}
    while (move := _next_move(parts_of, movable)) is not None:
        part, giver, taker = move
        parts_of[giver].remove(part)
        parts_of[taker].append(part)
    return {part: trainer for trainer, parts in parts_of.items() for part in parts}


def _next_move(
    parts_of: Mapping[str, list[int]], movable: set[int]
) -> tuple[int, str, str] | None:
    """A data part that makes shares more even, its keeper and who gets it."""
    taker = min(parts_of, key=lambda t: (len(parts_of[t]), t))
    for giver in sorted(parts_of, key=lambda t: (-len(parts_of[t]), t)):
        if len(parts_of[giver]) - len(parts_of[taker]) <= 1:
            return None
        may_move = movable.intersection(parts_of[giver])
        if may_move:
            return max(may_move), giver, taker
    return None


def _is_even(counts: Mapping[str, int], members: Collection[str]) -> bool:
    sizes = [counts.get(trainer, 0) for trainer in members]
    return max(sizes) - min(sizes) <= 1
