"""A queue before the slots that share it: turns in the order of decisions.

Waits for nothing. Any thread may run; what is placed is so under the `ServerCore`'s lock.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from paceline.errors import RuleFailed
from paceline.params.published import PublishedValues
from paceline.server.slots.turns import Action, BesideTurn, Joint, Turn
from paceline.timing import Clock

# Turns that may wait at a slot, each with the memory of its request: a thousand trainers
# have a push and what they read behind it on their way at once.
MOST_WAITING: Final = 4096


class _Placed(NamedTuple):
    turn: Turn
    done: Action  # what follows in the same turn
    owner: int


@final
class LinedTurns:
    """The turns of one decision, and what follows the last of them."""

    def __init__(
        self,
        queues: Sequence["SlotQueue"],
        done: Action,
        changes: Sequence[PublishedValues],
        asker: int | None,
    ) -> None:
        """None has ended; ``asker`` is a thread that may do itself what follows."""
        self._queues, self._done, self._changes = queues, done, changes
        self._lock = threading.Lock()  # guards `_left`
        self._left = len(queues)
        self._asker = asker
        self.is_over = False  # and left to the asker, who alone looks

    def ended(self) -> None:
        """A turn has ended; do what follows if it was the last."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        for values in self._changes:
            values.done()
        if self._asker == threading.get_ident():
            self.is_over = True
        else:
            self._done()

    def run(self) -> bool:
        """Run all that may start at these slots.

        Returns:
            Whether all has ended, and what follows is the asker's, who is told at once.
        """
        for queue in self._queues:
            queue.run(self)
        self._asker = None
        return self.is_over

    def go_before(self) -> None:
        """Somebody else is next: do first what was left to the asker."""
        self.is_over = False
        self._done()


@final
class SlotQueue:
    """Turns at one slot.

    Attributes:
        num_merged: turns that became one with a turn before them.
        busy_s: how long turns have run, those beside each other each for itself.
        longest: so many waited at once, at most, until somebody sets it to 0.
    """

    def __init__(
        self,
        on_error: Callable[[Exception], None],
        clock: Clock,
        full: set["SlotQueue"] | None = None,
    ) -> None:
        """Be idle; ``on_error`` gets what a turn raises, and the queue goes on.

        ``full``: of all queues that share it, those that are full.
        """
        self._on_error = on_error
        self._full = set() if full is None else full
        self._lock = threading.Lock()  # guards the fields below; never held in a turn
        self._placed: deque[_Placed] = deque()
        self._beside: set[int] = set()  # owners of turns that run beside others
        self._is_alone = False  # a turn runs alone
        self._now_s = clock.now_s
        self.num_merged = self.longest = 0
        self.busy_s = 0.0

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
            self._placed.append(_Placed(turn, done, owner))
            waiting = len(self._placed)
            self.longest = max(self.longest, waiting)
            if waiting >= MOST_WAITING:
                self._full.add(self)

    def run(self, asked: LinedTurns | None = None) -> None:
        """Run all that may start, others' turns too, until nothing may."""
        while self._placed and (placed := self._next()):
            turn, has_ended, began_s = placed[0].turn, True, self._now_s()
            try:
                if asked is not None and asked.is_over:
                    asked.go_before()
                if isinstance(turn, BesideTurn):
                    has_ended = turn.attempt()
                elif isinstance(turn, Joint):
                    turn.together(
                        [one.turn.numbers for one in placed if isinstance(one.turn, Joint)]
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

    def _next(self) -> list[_Placed]:
        """What is next if it may start; several only if they are one."""
        with self._lock:
            if not self._placed or self._is_alone:
                return []
            turn, _, owner = self._placed[0]
            if isinstance(turn, BesideTurn):
                if owner in self._beside:
                    return []  # whoever runs that comes by again
                self._beside.add(owner)
            elif self._beside:
                return []  # the last of those that run comes by again
            else:
                self._is_alone = True
            found = [self._placed.popleft()]
            if isinstance(turn, Joint):
                while len(found) < turn.most and self._goes_with(turn):
                    found.append(self._placed.popleft())
                self.num_merged += len(found) - 1
            if self._full and not self.is_full:
                self._full.discard(self)
            return found

    def _goes_with(self, turn: Joint) -> bool:
        """Whether the turn that is next now may be one with ``turn``."""
        following = self._placed[0].turn if self._placed else None
        return isinstance(following, Joint) and following.kind == turn.kind

    def _end(self, placed: _Placed, began_s: float, *, has_ended: bool) -> None:
        now_s = self._now_s()
        with self._lock:
            self.busy_s += now_s - began_s
            if isinstance(placed.turn, BesideTurn):
                self._beside.remove(placed.owner)
                if not has_ended:
                    self._placed.appendleft(placed._replace(turn=placed.turn.alone))
                    if self.is_full:
                        self._full.add(self)
            else:
                self._is_alone = False
