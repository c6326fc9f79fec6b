"""The queue in front of one slot: turns in the order of decisions, some beside others.

::

    placed      a   b   [c  d  e]   f  ...      a turn alone runs when nothing else does
                        `beside `               turns beside each other run at once

Whoever comes by runs what is next and may start. A turn beside others may find that it
must be alone after all (its rows have to be made): then it is next, alone, before
anything that was placed behind it. So a copy for a cut, which is a turn alone, is of
exactly the pushes placed before it, however many of them were at it at once.

Waits for nothing; `SlotQueue.run` computes. Any thread may run; `SlotQueue.place` is
called under the lock of `paceline.server.service_standing.Standing`, which makes the order.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, final

Action = Callable[[], None]


class Beside(NamedTuple):
    """A turn that may run beside others of its kind.

    ``attempt`` returns false if it must be alone, with nothing changed; ``alone`` is what
    runs then, by itself. One of the two has its effect.
    """

    attempt: Callable[[], bool]
    alone: Action


Turn = Action | Beside


class _Placed(NamedTuple):
    turn: Turn
    done: Action  # what follows in the same turn
    owner: int


@final
class SlotQueue:
    """Turns at one slot."""

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        """Be idle; ``on_error`` gets what a turn raises, and the queue goes on."""
        self._on_error = on_error
        self._lock = threading.Lock()  # guards the fields below; never held in a turn
        self._placed: deque[_Placed] = deque()
        self._beside: set[int] = set()  # owners of turns that run beside others
        self._is_alone = False  # a turn runs alone

    def place(self, turn: Turn, done: Action, owner: int) -> None:
        """Take the next place, ``done`` following the turn; `run` must follow once.

        Turns of one owner never run beside each other: what a trainer asks behind its push
        is read after it.
        """
        with self._lock:
            self._placed.append(_Placed(turn, done, owner))

    def run(self) -> None:
        """Run all that may start, others' turns too, until nothing may."""
        while (placed := self._next()) is not None:
            turn, has_ended = placed.turn, True
            try:
                if isinstance(turn, Beside):
                    has_ended = turn.attempt()
                else:
                    turn()
                if has_ended:
                    placed.done()
            except Exception as error:  # noqa: BLE001  (handed to the owner)
                self._on_error(error)
            finally:
                self._end(placed, has_ended=has_ended)

    def _next(self) -> _Placed | None:
        with self._lock:
            if not self._placed or self._is_alone:
                return None
            turn, _, owner = self._placed[0]
            if isinstance(turn, Beside):
                if owner in self._beside:
                    return None  # whoever runs that comes by again
                self._beside.add(owner)
            elif self._beside:
                return None  # the last of those that run comes by again
            else:
                self._is_alone = True
            return self._placed.popleft()

    def _end(self, placed: _Placed, *, has_ended: bool) -> None:
        with self._lock:
            if isinstance(placed.turn, Beside):
                self._beside.remove(placed.owner)
                if not has_ended:
                    self._placed.appendleft(placed._replace(turn=placed.turn.alone))
            else:
                self._is_alone = False
