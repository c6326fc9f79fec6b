"""Sends over a network while the user's thread computes.

A socket to another host takes what it can hold, and whoever sends more waits: in backward,
that would be the very time that was to be used. So what goes over one is handed to a
thread, which ends by itself when there is nothing left to send.

Waits: `SendingThread.withdraw`, for what is being sent. One thread hands over and
withdraws; the other one is this object's own.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import final

Send = Callable[[], None]


@final
class SendingThread:
    """Sends what it is handed, one after the other."""

    def __init__(self) -> None:
        """There is nothing to send, and no thread."""
        self._lock = threading.Lock()  # guards the two fields below
        self._waiting: deque[Send] = deque()
        self._is_sending = False  # the thread will look for more
        self._thread: threading.Thread | None = None  # the last one

    def hand(self, send: Send) -> None:
        """Have something sent behind all that was handed before; it must not raise."""
        with self._lock:
            self._waiting.append(send)
            if self._is_sending:
                return
            self._is_sending = True
        self._thread = threading.Thread(
            target=self._run, name="paceline-early", daemon=True
        )
        self._thread.start()

    def num_waiting(self) -> int:
        """How many have not been begun."""
        with self._lock:
            return len(self._waiting)

    def withdraw(self) -> None:
        """What has not been begun is not sent; what has been begun is, to its end."""
        with self._lock:
            self._waiting.clear()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_sending = False
                    return
                send = self._waiting.popleft()
            send()
