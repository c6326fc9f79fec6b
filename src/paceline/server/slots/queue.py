"""The queue in front of one slot: turns in the order of decisions, some beside others.

::

    placed      a   b   [c  d  e]   [f  g]  h ...   a turn alone runs when nothing else does
                        `beside `   `joint`         turns beside each other run at once,
                                                    joint ones as one

Whoever comes by runs what is next and may start. A turn beside others may find that it
must be alone after all (its rows have to be made): then it is next, alone, before
anything that was placed behind it. So a copy for a cut, which is a turn alone, is of
exactly the pushes placed before it, however many of them were at it at once.

Waits for nothing; `SlotQueue.run` computes. Any thread may run; `SlotQueue.place` is
called under the lock of the `ServerCore`, which makes the order.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, final

from paceline.errors import RuleFailed

# Turns that may wait at a slot, each with the memory of its request: a thousand trainers
# have a push and what they read behind it on their way at once.
MOST_WAITING: Final = 4096

Action = Callable[[], None]


def nothing() -> None:
    """An action that does nothing."""


class BesideTurn(NamedTuple):
    """A turn that may run beside others of its kind.

    ``attempt`` returns false if it must be alone, with nothing changed; ``alone`` is what
    runs then, by itself. One of the two has its effect.
    """

    attempt: Callable[[], bool]
    alone: Action


class Joint(NamedTuple):
    """A turn alone that may be one with those right behind it.

    ``together`` runs the ``numbers`` of all of them, in order. They must be equal in
    ``kind``; they are ``most`` at a time.
    """

    numbers: Any  # what ``together`` takes
    together: Callable[[list[Any]], None]
    kind: object
    most: int


Turn = Action | BesideTurn | Joint


class _Placed(NamedTuple):
    turn: Turn
    done: Action  # what follows in the same turn
    owner: int


@final
class Countdown:
    """Runs ``done``, one after the other, after the last of ``count`` turns."""

    def __init__(self, count: int, done: Sequence[Action]) -> None:
        """None has ended."""
        self._lock = threading.Lock()  # guards `_left`
        self._left = count
        self._done = done

    def ended(self) -> None:
        """A turn has ended; run what follows if it was the last."""
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            for done in self._done:
                done()


@final
class SlotQueue:
    """Turns at one slot."""

    def __init__(
        self,
        on_error: Callable[[Exception], None],
        full: set["SlotQueue"] | None = None,
    ) -> None:
        """Be idle.

        Args:
            on_error: gets what a turn raises; the queue goes on.
            full: of all queues that share it, those that are full.
        """
        self._on_error = on_error
        self._full = set() if full is None else full
        self._lock = threading.Lock()  # guards the fields below; never held in a turn
        self._placed: deque[_Placed] = deque()
        self._beside: set[int] = set()  # owners of turns that run beside others
        self._is_alone = False  # a turn runs alone
        self._num_merged = 0

    @property
    def num_merged(self) -> int:
        """Turns that became one with a turn before them."""
        return self._num_merged

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
            if self.is_full:
                self._full.add(self)

    def run(self) -> None:
        """Run all that may start, others' turns too, until nothing may."""
        while placed := self._next():
            turn, has_ended = placed[0].turn, True
            try:
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
                self._end(placed[0], has_ended=has_ended)

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
                self._num_merged += len(found) - 1
            if not self.is_full:
                self._full.discard(self)
            return found

    def _goes_with(self, turn: Joint) -> bool:
        """Whether the turn that is next now may be one with ``turn``."""
        following = self._placed[0].turn if self._placed else None
        return isinstance(following, Joint) and following.kind == turn.kind

    def _end(self, placed: _Placed, *, has_ended: bool) -> None:
        with self._lock:
            if isinstance(placed.turn, BesideTurn):
                self._beside.remove(placed.owner)
                if not has_ended:
                    self._placed.appendleft(placed._replace(turn=placed.turn.alone))
                    if self.is_full:
                        self._full.add(self)
            else:
                self._is_alone = False


def line_up(
    queues: Sequence[SlotQueue],
    turns: Iterable[Turn],
    done: Sequence[Action],
    owner: int,
) -> Action:
    """Place a turn at each of the queues; see `Slots.line_up`."""
    ended = Countdown(len(queues), done).ended
    for queue, turn in zip(queues, turns, strict=True):
        queue.place(turn, ended, owner)
    return functools.partial(_run, queues)


def _run(queues: Sequence[SlotQueue]) -> None:
    for queue in queues:
        queue.run()
