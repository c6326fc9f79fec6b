"""One thing at a time, in order, on whoever comes by.

::

    idle:      the submitter runs its action, then all that came meanwhile
    draining:  the submitter only appends and returns

So an idle queue costs no hand-over, and state that only its actions touch needs no lock.
Server slots and the coordinator's state live behind one.

Waits for nothing; `SerialQueue.submit` runs actions. Any thread may call, actions too: what
an action submits runs after it.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import final

from paceline.errors import Refused

Action = Callable[[], None]


@final
class SerialQueue:
    """Runs actions one at a time, in the order of submission."""

    def __init__(
        self, on_error: Callable[[Exception], None], max_depth: int | None = None
    ) -> None:
        """Be idle.

        Args:
            on_error: gets what an action raises; the queue goes on.
            max_depth: most actions that may wait; None is without bound.
        """
        self._on_error = on_error
        self._max_depth = max_depth
        # Guards the two fields below; never held while an action runs.
        self._lock = threading.Lock()
        self._waiting: deque[Action] = deque()
        self._is_draining = False

    @property
    def depth(self) -> int:
        """Actions that wait now."""
        return len(self._waiting)

    def submit(self, action: Action) -> None:
        """Have an action run: before this returns if the queue is idle, else soon.

        Raises:
            Refused: ``not_ready``, too many actions wait; try again soon.
        """
        with self._lock:
            if self._max_depth is not None and len(self._waiting) >= self._max_depth:
                raise Refused(
                    "not_ready", f"{self._max_depth} actions wait in the queue: try again"
                )
            self._waiting.append(action)
            if self._is_draining:
                return
            self._is_draining = True
        self._drain()

    def _drain(self) -> None:
        """Run until nothing waits; leave the role however it ends."""
        try:
            while (action := self._next()) is not None:
                try:
                    action()
                except Exception as error:  # noqa: BLE001  (handed to the owner)
                    self._on_error(error)
        except BaseException:
            with self._lock:
                self._is_draining = False
            raise

    def _next(self) -> Action | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._is_draining = False
            return None
