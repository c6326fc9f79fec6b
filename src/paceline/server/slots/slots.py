"""The numbers of one server: its shard, with queues in front of the slots.

::

    under the state lock        line_up   the actions of one decision join their slots
    afterwards, anywhere        run       whoever comes by runs what is next in each queue

    placed      a   b   [c  d  e]   [f  g]  h ...   a turn alone runs when nothing else does
                        `beside `   `joint`         turns beside each other run at once,
                                                    joint ones as one

So numbers follow in the order of the decisions, queues in parallel, and no lock is held
while they are computed. Blocks of a bundle share a queue, and so do a few slots with rows,
unless turns of a slot may be one or beside each other. A turn beside others may find that
it must be alone after all (its rows have to be made): then it is next, alone, before all
that was placed behind it. A copy for a cut, a turn alone, is of exactly the pushes that
marks copied in the same breath show.

Waits for nothing. Any thread may run; what lines up does so under the `ServerCore`'s lock.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, final

import torch

from paceline.messages.server import SlotLoad
from paceline.messages.shared import PartPlan, Refusal, TrainerMessage
from paceline.pace.policy import pushes_per_update
from paceline.params.bundle import MOST_BYTES, Bundle
from paceline.params.guarding import is_hogwild
from paceline.params.shard import ParameterShard
from paceline.server.requests import PartLayout, layout_of
from paceline.server.requests.contents import PushContents
from paceline.server.slots.actions import Actions, SlotActions
from paceline.server.slots.published import LentValues
from paceline.server.slots.queue import MOST_WAITING, LinedTurns, SlotQueue
from paceline.server.slots.turns import (
    ROW_QUEUES,
    Action,
    Turn,
    one_turn,
)
from paceline.timing import Clock

SlotTensors = dict[str, torch.Tensor]  # {name: tensor}, all that a slot holds

DENSE_QUEUE: Final = (
    "isolation=hogwild applies pushes of rows beside each other; its dense parameters are "
    "updated one push at a time"
)

_log = logging.getLogger("paceline.server")


@final
class Slots:
    """The slots of one server on one timeline.

    Attributes:
        layouts: what of each part lies here.
        actions: what may happen to the numbers beside a push.
        full: queues at which nothing more may wait; see `refusal_of`.
        lent: ``{part: dense values that trainers of this host may read themselves}``.
        shard: the numbers; nobody else changes them but before this object is known.
    """

    def __init__(
        self, server: str, seed: int, on_error: Callable[[Exception], None], clock: Clock
    ) -> None:
        """Be empty; ``on_error`` gets what an action raises, which none should."""
        self._clock = clock
        self.layouts: dict[int, PartLayout] = {}  # {part: layout}
        self.full: set[SlotQueue] = set()
        self._server, self._seed, self._on_error = server, seed, on_error
        self.shard = ParameterShard()
        self._most: dict[int, int] = {}  # {part: pushes that may be one update}
        self._queues: dict[int, SlotQueue] = {}  # {slot: queue}
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
        many = 1 if is_apart else max(1, -(-len(rows) // ROW_QUEUES))
        row_leads = {slot: rows[n - n % many] for n, slot in enumerate(rows)}
        how = (self._seed, lent.block, bundle_bytes, row_leads)
        self.shard.create(plan, self._server, *how)
        self.lent[layout.part] = lent
        self._row_leads |= row_leads
        leads = row_leads | {s: self.shard.bundles[s].lead for s in layout.blocks}
        how_made = (self._on_error, self._clock, self.full)
        made = {lead: SlotQueue(*how_made) for lead in {*leads.values()}}
        self._queues |= {slot: made[lead] for slot, lead in leads.items()}
        if is_hogwild(plan.spec):
            self._hogwild |= layout.row_slots
            if layout.blocks:
                _log.warning("part %d: %s", layout.part, DENSE_QUEUE)
        self.layouts[plan.spec.part] = layout
        self._most[plan.spec.part] = most

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
            if self._queues[slot].is_full:
                text = f"slot {slot} of {self._server} has {MOST_WAITING} turns waiting"
                return Refusal(kind="not_ready", text=text, timeline=message.timeline)
        return None

    def num_merged(self) -> int:
        """Pushes that became one update with one before them, over all slots."""
        return sum(queue.num_merged for queue in {*self._queues.values()})

    def take_load(self) -> tuple[SlotLoad, ...]:
        """Of each queue, by its first slot; how long it was is counted anew from now on."""
        first: dict[SlotQueue, int] = {}
        for slot in sorted(self._queues):
            first.setdefault(self._queues[slot], slot)
        told = []
        for queue, slot in first.items():
            told.append(SlotLoad(slot, round(queue.busy_s, 4), queue.longest))
            queue.longest = 0
        return tuple(told)

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
    ) -> Action:
        """Give the actions their places; what is returned runs them and must be called.

        Args:
            actions: of one decision.
            done: runs after the last of them, in whichever thread that is.
            owner: an incarnation: its actions follow each other, even beside others.
            changed: parts whose values change by it: readers of lent memory know so from
                now on until they have.
            version: of those parts, if values of a script make one.
        """
        lined = self._place(actions, done, owner, changed, version)
        return lined.run if actions else done

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
        places, nothing is computed yet.

        Returns:
            Whether all has ended, and the caller is to do what ``done`` does.
        """
        actions = self.applying(part, contents, slots)
        lined = self._place(actions, done, owner, (part,), version, threading.get_ident())
        placed()
        return lined.run() or not actions

    def applying(self, part: int, contents: PushContents, slots: Sequence[int]) -> Actions:
        """Take one optimizer step on each of ``slots`` that the push has numbers for."""
        layout, actions, most = self.layouts[part], Actions(), self._most[part]
        if most > 1:
            return self.actions.applying_jointly(part, contents, slots, most)
        blocks: dict[Bundle, dict[int, torch.Tensor]] = {}
        for slot in slots:
            gradient = contents.blocks.get(slot)
            if slot in contents.sparse or slot in contents.then:
                actions[slot] = self.actions.stepping(layout, contents, slot)
            elif gradient is not None:
                blocks.setdefault(self.shard.bundles[slot], {})[slot] = gradient
        for bundle, gradients in blocks.items():
            group = contents.hyper[bundle.group]
            actions[bundle.lead] = functools.partial(bundle.apply, gradients, group)
        if contents.rows:
            actions |= self.actions.applying_rows(layout, contents, slots)
        return actions

    def _place(
        self,
        actions: Mapping[int, Turn],
        done: Action,
        owner: int,
        changed: Iterable[int],
        version: int | None,
        asker: int | None = None,
    ) -> LinedTurns:
        changes = []
        for part in changed:
            lent = self.lent[part].values
            if lent is not None and not lent.blocks.keys().isdisjoint(actions):
                lent.decide()
                changes.append(lent)
            if lent is not None and version is not None:
                lent.count(version)
        turns: dict[SlotQueue, Turn] = {}
        for slot, turn in actions.items():
            queue = self._queues[slot]
            turns[queue] = turn if queue not in turns else one_turn(turns[queue], turn)
        lined = LinedTurns(tuple(turns), done, changes, asker)
        ended = lined.ended
        for queue, turn in turns.items():
            queue.place(turn, ended, owner)
        return lined
