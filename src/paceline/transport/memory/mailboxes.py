"""Which requests of a connection lie in which mailbox.

A mailbox is made when the first large request comes, and a larger one when it is too
small; the older is given up as soon as nothing of it is under way. Where there can be
none, everything goes through the socket.

Waits: as the function that offers a mailbox does. Any thread may call.
"""

import threading
from collections.abc import Callable, Sequence
from typing import final

from paceline.transport.frames import InMailbox
from paceline.transport.memory.mailbox import LEAST_BYTES, Outgoing

Offering = Callable[[Outgoing], None]


@final
class Mailboxes:
    """The client's mailboxes of one connection."""

    def __init__(self, *, is_possible: bool) -> None:
        """Have none yet; ``is_possible``: whether the other end can look into one."""
        self._lock = threading.Lock()  # guards changes of the two fields below
        self._is_possible = is_possible
        self._newest: Outgoing | None = None
        self._used: dict[int, Outgoing] = {}  # {request id: what it lies in}

    def put(
        self,
        request_id: int,
        reply_sizes: Sequence[int],
        pen: int | None,
        offer: Offering,
        views: Sequence[memoryview],
    ) -> InMailbox:
        """Let large buffers of a request, and of its reply, lie there; see `Outgoing.put`.

        ``offer`` tells the other end of a new mailbox, before anything lies there, and
        raises what it raises.
        """
        sizes = [view.nbytes for view in views]
        lying = views if sum(sizes) >= LEAST_BYTES else ()
        room = reply_sizes if sum(reply_sizes) >= LEAST_BYTES else ()
        if not self._is_possible or not (lying or room):
            return InMailbox()
        mailbox = self._newest
        shared = mailbox and mailbox.put(request_id, lying, room, pen)
        if shared is None:
            pens = mailbox.pen_bytes() if mailbox is not None else 0
            needed = 2 * (sum(sizes) + sum(reply_sizes) + pens)
            mailbox = self._enlarged(mailbox, needed, offer)
            shared = mailbox and mailbox.put(request_id, lying, room, pen)
        if mailbox is None or shared is None:
            return InMailbox()
        self._used[request_id] = mailbox
        return shared

    def of(self, request_id: int) -> Outgoing | None:
        """Where a request's reply may lie; None if it was given no place."""
        return self._used.get(request_id)

    def free(self, request_id: int) -> None:
        """Nothing of a request, or of its reply, lies there any more."""
        mailbox = self._used.pop(request_id, None)
        if mailbox is not None:
            mailbox.free(request_id)

    def close(self) -> None:
        """Let go of all: nothing comes that would lie there."""
        with self._lock:
            newest, self._newest, self._is_possible = self._newest, None, False
        self._used.clear()
        if newest is not None:
            newest.close()

    def _enlarged(
        self, tried: Outgoing | None, num_bytes: int, offer: Offering
    ) -> Outgoing | None:
        """A mailbox to try after that one; None if that helps nobody."""
        with self._lock:
            old = self._newest
            if old is not tried or not self._is_possible:
                return old  # another thread was quicker
            if old is not None and old.num_bytes >= num_bytes:
                return None  # it is large enough, and others are still under way in it
            try:
                made = Outgoing(num_bytes)
            except OSError:
                self._is_possible = False  # the socket carries everything
                return None
            try:
                offer(made)
            except BaseException:
                made.close()
                raise
            self._newest = made
        if old is not None:
            old.close()
        return made
