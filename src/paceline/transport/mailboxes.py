"""Which requests of a connection lie in which mailbox.

A mailbox is made when the first large request comes, and a larger one when it is too
small; the older is given up as soon as nothing of it is under way. Where there can be
none, everything goes through the socket.

Waits: as the function that offers a mailbox does. One thread puts at a time, any frees.
"""

from collections.abc import Callable, Sequence
from typing import final

from paceline.timing import Deadline
from paceline.transport.frames import Shared
from paceline.transport.mailbox import LEAST_BYTES, Outgoing


@final
class Mailboxes:
    """The client's mailboxes of one connection."""

    def __init__(
        self, offer: Callable[[Outgoing, Deadline], None], *, is_possible: bool
    ) -> None:
        """Have none yet.

        Args:
            offer: tells the other end of a new one, before anything lies there.
            is_possible: whether the other end can look into one.
        """
        self._offer = offer
        self._is_possible = is_possible
        self._newest: Outgoing | None = None  # by who puts
        self._used: dict[int, Outgoing] = {}  # {request id: what it lies in}

    def put(
        self,
        request_id: int,
        reply_sizes: Sequence[int],
        pen: int | None,
        deadline: Deadline,
        views: Sequence[memoryview],
    ) -> Shared:
        """Let large buffers of a request, and of its reply, lie there; see `Outgoing.put`.

        Raises:
            TransportError: as offering a mailbox.
        """
        sizes = [view.nbytes for view in views]
        lying = views if sum(sizes) >= LEAST_BYTES else ()
        room = reply_sizes if sum(reply_sizes) >= LEAST_BYTES else ()
        if not self._is_possible or not (lying or room):
            return Shared()
        mailbox = self._newest
        shared = mailbox and mailbox.put(request_id, lying, room, pen)
        if shared is None:
            mailbox = self._enlarge(2 * (sum(sizes) + sum(reply_sizes)), deadline)
            shared = mailbox and mailbox.put(request_id, lying, room, pen)
        if mailbox is None or shared is None:
            return Shared()
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
        newest, self._newest, self._is_possible = self._newest, None, False
        self._used.clear()
        if newest is not None:
            newest.close()

    def _enlarge(self, num_bytes: int, deadline: Deadline) -> Outgoing | None:
        """Make a mailbox, the first or a larger one; None if that helps nobody."""
        old = self._newest
        if old is not None and old.num_bytes >= num_bytes:
            return None  # it is large enough, and others are still under way in it
        try:
            made = Outgoing(num_bytes)
        except OSError:
            self._is_possible = False  # the socket carries everything
            return None
        try:
            self._offer(made, deadline)
        except BaseException:
            made.close()
            raise
        self._newest = made
        if old is not None:
            old.close()
        return made
