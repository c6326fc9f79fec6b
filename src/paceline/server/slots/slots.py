"""The numbers of one server: its shard, with queues in front of the slots.

::

    under the state lock        line_up   the actions of one decision join their slots
    afterwards, anywhere        run       whoever comes by runs what is next in each queue

    placed      a   b   [c  d  e]   [f  g]  h ...   a turn alone runs when nothing else does
                        `beside `   `joint`         turns beside each other run at once,
                                                    joint ones as one

So numbers follow in the order of the decisions, queues in parallel, and no lock is held
while they are computed. Blocks of a bundle share a queue, and so do a few slots with rows,
unless turns of a slot may be one or beside each other. A copy for a cut, a turn alone, is
of exactly the pushes that marks copied in the same breath show.

Waits for nothing. Any thread may run; what lines up does so under the `ServerCore`'s lock.
"""

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, final

import msgspec
import torch
from msgspec.structs import replace

from paceline.errors import RuleFailed
from paceline.messages.shared import PartPlan, Refusal, TrainerMessage
from paceline.pace.policy import pushes_per_update
from paceline.params.bundle import MOST_BYTES, Bundle
from paceline.params.guarding import is_hogwild
from paceline.params.published import PublishedValues
from paceline.params.shard import ParameterShard
from paceline.server.requests import PartLayout, layout_of
from paceline.server.requests.contents import PushContents
from paceline.server.slots.actions import Actions, SlotActions
from paceline.server.slots.published import LentValues
from paceline.server.slots.turns import (
    DENSE_QUEUE,
    Action,
    BesideTurn,
    Joint,
    PlacedTurn,
    Turn,
    one_turn,
)
from paceline.timing import Clock

SlotTensors = dict[str, torch.Tensor]  # {name: tensor}, all that a slot holds
OnError = Callable[[Exception], None]

# Turns that may wait at a slot, each with the memory of its request: a thousand trainers
# have a push and what they read behind it on their way at once.
MOST_WAITING: Final = 4096

_ENDING: Final = threading.Lock()  # guards the counts of turns that are left

_log = logging.getLogger("paceline.server")


@final
class LinedTurns(msgspec.Struct, eq=False):
    """The turns of one decision, and what follows the last of them.

    ``asker`` is a thread that may do itself what follows; with ``is_over`` all has ended,
    and that is left to the asker, who alone looks.
    """

    queues: Sequence["SlotQueue"]
    done: Action
    changes: Sequence[PublishedValues]
    num_left: int  # turns that have not ended, at least one; by _ENDING
    asker: int | None
    is_over: bool = False

    def ended(self) -> None:
        """A turn has ended; do what follows if it was the last."""
        if self.num_left > 1:  # else all others have, and nobody counts any more
            with _ENDING:
                self.num_left -= 1
                if self.num_left:
                    return
        for values in self.changes:
            values.done()
        self.is_over = self.asker is not None and self.asker == threading.get_ident()
        if not self.is_over:
            self.done()

    def run(self) -> bool:
        """Run all that may start; true: all has ended, and what follows is the asker's."""
        for queue in self.queues:
            queue.run(self)
        self.asker = None
        return self.is_over

    def go_before(self) -> None:
        """Somebody else is next: do first what was left to the asker."""
        self.is_over = False
        self.done()


@final
class SlotQueue:
    """Turns at one slot.

    Attributes:
        num_merged: turns that became one with a turn before them.
        busy_s: how long turns have run, those beside each other each for itself.
    """

    def __init__(
        self, on_error: OnError, clock: Clock, full: set["SlotQueue"] | None = None
    ) -> None:
        """Be idle; ``on_error`` gets what a turn raises, and the queue goes on.

        ``full``: of all queues that share it, those that are full.
        """
        self._on_error, self._now_s = on_error, clock.now_s
        self._full = set() if full is None else full
        self._lock = threading.Lock()  # guards the fields below; never held in a turn
        self._placed: deque[PlacedTurn] = deque()
        self._beside: set[int] = set()  # owners of turns that run beside others
        self._is_alone = False  # a turn runs alone
        self.num_merged, self.longest, self.busy_s = 0, 0, 0.0

    def take_longest(self) -> int:
        """So many waited at once, at most, since this was asked last."""
        with self._lock:
            longest, self.longest = self.longest, len(self._placed)
        return longest

    @property
    def is_full(self) -> bool:
        """Whether as many turns wait as may; the asker comes again."""
        return len(self._placed) >= MOST_WAITING

    def place(self, turn: Turn, done: Action, owner: int) -> None:
        """Take the next place, ``done`` following the turn; `run` must follow once.

        Turns of one owner never run beside each other: what a trainer asks behind its push
        is read after it.
        """
        with self._lock:
            self._placed.append(PlacedTurn(turn, done, owner))
            if (waiting := len(self._placed)) > self.longest:
                self.longest = waiting
            if waiting >= MOST_WAITING:
                self._full.add(self)

    def run(self, asked: LinedTurns | None = None) -> None:
        """Run all that may start, others' turns too, until nothing may."""
        while self._placed and (placed := self._next()):
            turn, has_ended, began_s = placed[0].turn, True, self._now_s()
            try:
                if asked is not None and asked.is_over:
                    asked.go_before()
                if type(turn) is BesideTurn:
                    has_ended = turn.attempt()
                elif type(turn) is Joint:
                    turn.together(
                        [one.turn.numbers for one in placed if type(one.turn) is Joint]
                    )
                else:
                    turn()
                if has_ended:
                    for one in placed:
                        one.done()
            except Exception as error:  # noqa: BLE001  (handed to the owner)
                self._on_error(error)
                if isinstance(error, RuleFailed):  # whoever waits is told, by `done`
                    for one in placed:
                        one.done()
            finally:
                self._end(placed[0], began_s, has_ended=has_ended)

    def _next(self) -> list[PlacedTurn]:
        """What is next if it may start; several only if they are one."""
        with self._lock:
            if not self._placed or self._is_alone:
                return []
            turn = self._placed[0].turn
            if type(turn) is BesideTurn:
                if (owner := self._placed[0].owner) in self._beside:
                    return []  # whoever runs that comes by again
                self._beside.add(owner)
            elif self._beside:
                return []  # the last of those that run comes by again
            else:
                self._is_alone = True
            found = [self._placed.popleft()]
            if type(turn) is Joint:
                while self._placed and len(found) < turn.most:
                    following = self._placed[0].turn
                    if type(following) is not Joint or following.kind != turn.kind:
                        break
                    found.append(self._placed.popleft())
                self.num_merged += len(found) - 1
            if self._full and not self.is_full:
                self._full.discard(self)
            return found

    def _end(self, placed: PlacedTurn, began_s: float, *, has_ended: bool) -> None:
        now_s = self._now_s()
        with self._lock:
            self.busy_s += now_s - began_s
            if type(placed.turn) is BesideTurn:
                self._beside.remove(placed.owner)
                if not has_ended:
                    self._placed.appendleft(replace(placed, turn=placed.turn.alone))
                    if self.is_full:
                        self._full.add(self)
            else:
                self._is_alone = False


@final
class Slots:
    """The slots of one server on one timeline.

    Attributes:
        layouts: what of each part lies here.
        queues: ``{slot: queue}``; slots may share one.
        actions: what may happen to the numbers beside a push.
        full: queues at which nothing more may wait; see `refusal_of`.
        lent: ``{part: dense values that trainers of this host may read themselves}``.
        shard: the numbers; nobody else changes them but before this object is known.
    """

    def __init__(
        self, server: str, seed: int, on_error: OnError, clock: Clock, row_queues: int
    ) -> None:
        """Be empty; ``on_error`` gets what an action raises, which none should.

        ``row_queues``: so many are shared by all slots with rows of a part.
        """
        self.layouts: dict[int, PartLayout] = {}  # {part: layout}
        self.full: set[SlotQueue] = set()
        self._server, self._seed = server, seed
        self._made = functools.partial(SlotQueue, on_error, clock, self.full)
        self.shard = ParameterShard()
        self._row_queues = row_queues
        self._most: dict[int, int] = {}  # {part: pushes that may be one update}
        self._merging: list[SlotQueue] = []  # of parts whose pushes may
        self.queues: dict[int, SlotQueue] = {}  # {slot: queue}
        self._row_leads: dict[int, int] = {}  # {row slot: the first at its queue}
        self._hogwild: set[int] = set()  # row slots of hogwild parts
        self.lent: dict[int, LentValues] = {}
        self.actions = SlotActions(self.shard, self.layouts, self._hogwild, self._row_leads)

    def create(self, plan: PartPlan) -> None:
        """Make the slots of a part that lie here.

        Raises:
            UsageError: no server knows its optimizer or dtype; nothing has been changed.
        """
        layout = layout_of(plan, self._server)
        lent = LentValues(layout)
        most = pushes_per_update(plan.spec.pace)
        # What several pushes do at once, or what is corrected, is done block by block.
        bundle_bytes = 0 if most > 1 or layout.compensation is not None else MOST_BYTES
        is_apart = most > 1 or is_hogwild(plan.spec)
        rows = sorted(layout.row_slots)
        many = 1 if is_apart else max(1, -(-len(rows) // self._row_queues))
        row_leads = {slot: rows[n - n % many] for n, slot in enumerate(rows)}
        how = (self._seed, lent.block, bundle_bytes, row_leads)
        self.shard.create(plan, self._server, *how)
        self.lent[layout.part] = lent
        self._row_leads |= row_leads
        leads = row_leads | {s: self.shard.bundles[s].lead for s in layout.blocks}
        made = {lead: self._made() for lead in {*leads.values()}}
        self.queues |= {slot: made[lead] for slot, lead in leads.items()}
        self._merging += made.values() if most > 1 else ()
        if is_hogwild(plan.spec):
            self._hogwild |= layout.row_slots
            if layout.blocks:
                _log.warning("part %d: %s", layout.part, DENSE_QUEUE)
        self.layouts[plan.spec.part], self._most[plan.spec.part] = layout, most

    def line_up_read(
        self, actions: Mapping[int, Turn], done: Action, message: TrainerMessage
    ) -> Refusal | Action:
        """As `line_up`, for who has asked; or why not, see `refusal_of`."""
        refusal = self.refusal_of(actions, message) if self.full else None
        return refusal or self.line_up(actions, done, message.incarnation)

    def refusal_of(self, slots: Iterable[int], message: TrainerMessage) -> Refusal | None:
        """Why nothing more may wait at one of these slots; None if it may.

        Nothing has been decided: the trainer comes again with the same.
        """
        for slot in slots:
            if self.queues[slot].is_full:
                text = f"slot {slot} of {self._server} has {MOST_WAITING} turns waiting"
                return Refusal(kind="not_ready", text=text, timeline=message.timeline)
        return None

    def num_merged(self) -> int:
        """Pushes that became one update with one before them, over all slots."""
        return sum([queue.num_merged for queue in self._merging])

    def retire(self) -> None:
        """Another object takes this one's place: nothing here changes any more."""
        for lent in self.lent.values():
            lent.retire()

    # ------------------------------------------------------------ lining up

    def line_up(
        self,
        actions: Mapping[int, Turn],
        done: Action,
        owner: int = 0,
        *,
        changed: Iterable[int] = (),
        version: int | None = None,
        asker: int | None = None,
    ) -> Action:
        """Give a decision's actions their places; what is returned runs them, and must be.

        ``done`` runs after the last of them, in whichever thread that is; but if it is that
        of the ``asker``, true is returned instead. ``owner``, an incarnation: its actions
        follow each other, even beside others. ``changed``: parts whose values change;
        readers of lent memory know so from now on until they have. ``version``: of those
        parts, if values of a script make one.
        """
        changes = []
        for part in changed:
            lent = self.lent[part].values
            if lent is not None and not lent.blocks.keys().isdisjoint(actions):
                lent.decide()
                changes.append(lent)
            if lent is not None and version is not None:
                lent.count(version)
        if not actions:
            return done
        turns: dict[SlotQueue, Turn] = {}
        for slot, turn in actions.items():
            queue = self.queues[slot]
            turns[queue] = turn if queue not in turns else one_turn(turns[queue], turn)
        lined = LinedTurns(tuple(turns), done, changes, len(turns), asker)
        ended = lined.ended
        for queue, turn in turns.items():
            queue.place(turn, ended, owner)
        return lined.run

    def push(
        self,
        part: int,
        contents: PushContents,
        slots: Sequence[int],
        version: int,
        owner: int,
        done: Action,
        placed: Action,
    ) -> bool:
        """Let the numbers of a push that is applied at once follow, in its turns.

        It makes this version of the part. ``placed`` lets the lock go: the push has its
        places, nothing is computed yet. True: all has ended, and the caller does ``done``.
        """
        asker = threading.get_ident()
        try:
            what = self.applying(part, contents, slots), done, owner
            run = self.line_up(*what, changed=(part,), version=version, asker=asker)
        finally:
            placed()
        return run() is True

    def applying(self, part: int, contents: PushContents, slots: Sequence[int]) -> Actions:
        """Take one optimizer step on each of ``slots`` that the push has numbers for."""
        layout, actions, most = self.layouts[part], Actions(), self._most[part]
        if most > 1:
            return self.actions.applying_jointly(part, contents, slots, most)
        taken, blocks = frozenset(slots), dict[Bundle, dict[int, torch.Tensor]]()
        for slot in (*contents.sparse, *contents.then):
            if slot in taken:
                actions[slot] = self.actions.stepping(layout, contents, slot)
        for slot, gradient in contents.blocks.items():
            if slot in taken and slot not in contents.then:
                blocks.setdefault(self.shard.bundles[slot], {})[slot] = gradient
        for bundle, gradients in blocks.items():
            group = contents.hyper[bundle.group]
            actions[bundle.lead] = functools.partial(bundle.apply, gradients, group)
        if contents.rows:
            actions |= self.actions.applying_rows(layout, contents, taken)
        return actions
