"""Memory that two processes of one host share: buffers of requests and replies lie in it.

::

    client   copies the buffers into the mailbox, sends the frame that says where they lie
             and where there is room for those of the reply
    server   reads them in place, writes the reply's in place, replies
    client   copies those to where they belong

So large buffers are copied once, and no kernel buffer limits how they travel. The mailbox
is sealed memory (`shared_memory`), and belongs to one connection. After a loss nothing is
written into it any more: a server that is still reading reads what was sent. The frame that
names a place goes through the socket after the copy, so whoever has it sees the bytes.

A mailbox is made when the first large request comes, and a larger one when it is too
small; the older is given up as soon as nothing of it is under way. Where there can be
none, everything goes through the socket.

Waits: as the function that offers a mailbox does. Any thread may call.
"""

import mmap
import os
import threading
from collections.abc import Callable, Sequence
from typing import final

import msgspec

from paceline.errors import FrameRefused
from paceline.transport.frames import ByteArray, InMailbox, Limits, Room, byte_array, spread
from paceline.transport.shared_memory import STAYS_AS_LONG, sealed_memory, seals_of

# What is smaller travels as fast in the frame.
LEAST_BYTES = 16 << 10
_ROUNDS_UP_TO = 1 << 26


class MailboxOffer(msgspec.Struct, frozen=True, tag="Offer"):  # as it is called on the wire
    """A mailbox comes with this frame: its descriptor, and its size."""

    num_bytes: int


MAILBOX_OFFER = msgspec.msgpack.Decoder(MailboxOffer)


@final
class Outgoing:
    """The client's end: where requests are put."""

    def __init__(self, num_bytes: int) -> None:
        """Make room for requests of ``num_bytes`` together, or more.

        Raises:
            OSError: the system has no such files, or no memory for one.
        """
        self.num_bytes = -(-num_bytes // _ROUNDS_UP_TO) * _ROUNDS_UP_TO
        # The descriptor is there until `close`.
        self.fd, self._memory = sealed_memory(self.num_bytes, STAYS_AS_LONG)
        self._lock = threading.Lock()  # guards the four fields below
        self._taken: dict[int, int] = {}  # {request id, < 0 a pen's: behind its last byte}
        self._pens: dict[int, tuple[int, int]] = {}  # {pen: where it begins and ends}
        self._num_pens = 0  # made so far
        self._is_open = True

    def put(
        self,
        request_id: int,
        views: Sequence[memoryview],
        room: Sequence[int] = (),
        pen: int | None = None,
    ) -> InMailbox | None:
        """Copy a request's buffers, and keep room for its reply's.

        ``room`` has the bytes of each buffer of the reply, none if they travel in the
        frame; a pen is a place of its own, which only requests of the same pen use.

        Returns:
            Where they lie; None if they do not fit now.
        """
        offsets, total = spread([view.nbytes for view in views])
        room_bytes = spread(room)[1]
        with self._lock:
            start = self._pen(pen, total) if pen is not None and views else None
            begins = max(self._taken.values(), default=0)
            if start is None:
                start, begins = begins, begins + total
            stop = begins + room_bytes
            if not self._is_open or stop > self.num_bytes:
                return None
            self._taken[request_id] = stop
        for view, offset in zip(views, offsets, strict=True):
            at = start + offset
            self._memory[at : at + view.nbytes] = byte_array(view)
        return InMailbox(
            start if views else None,
            Room(begins, room_bytes) if room else None,
        )

    def pen_bytes(self) -> int:
        """How much pens hold for good."""
        with self._lock:
            return sum(stop - start for start, stop in self._pens.values())

    def _pen(self, pen: int, num_bytes: int) -> int | None:
        """Where a pen begins; None if there is no room for it. By the lock's owner."""
        start, stop = self._pens.get(pen, (0, 0))
        if stop - start < num_bytes:
            start = max(self._taken.values(), default=0)
            stop = start + num_bytes
            if stop > self.num_bytes:
                return None
            # One that has become too small is left as it is: it may still be read.
            self._pens[pen] = start, stop
            self._num_pens += 1
            self._taken[-self._num_pens] = stop
        return start

    def take(self, place: int, buffers: Sequence[ByteArray]) -> None:
        """Copy a reply's buffers to where they belong.

        Raises:
            FrameRefused: they do not lie within the mailbox.
        """
        found = find(self._memory, place, [buffer.nbytes for buffer in buffers])
        for buffer, source in zip(buffers, found, strict=True):
            buffer[:] = source

    def free(self, request_id: int) -> None:
        """The request is answered: nobody reads its buffers any more."""
        with self._lock:
            self._taken.pop(request_id, None)

    def close(self) -> None:
        """Take no more; the memory goes with the last who looks at it."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                os.close(self.fd)


@final
class Incoming:
    """The server's end: where requests are found."""

    def __init__(self, fd: int, offer: MailboxOffer) -> None:
        """Look at an offered file; the descriptor stays the caller's.

        Raises:
            FrameRefused: it is none that stays as it is, or of another size.
        """
        try:
            seals = seals_of(fd)
            size = os.fstat(fd).st_size
            if (
                seals & STAYS_AS_LONG != STAYS_AS_LONG
                or size != offer.num_bytes
                or size == 0
            ):
                raise FrameRefused(
                    f"expected a sealed file of {offer.num_bytes} bytes as a mailbox, got "
                    f"one of {size} bytes with the seals {seals:#x}"
                )
            self._memory = byte_array(memoryview(mmap.mmap(fd, size)))
        except OSError as error:
            raise FrameRefused(f"what was offered is no mailbox: {error}") from error

    def find(self, place: int, sizes: Sequence[int], limits: Limits) -> list[ByteArray]:
        """The buffers that lie from ``place`` on.

        Raises:
            FrameRefused: they do not lie within the mailbox, or are over the limit.
        """
        if sum(sizes) > limits.frame_bytes:
            raise FrameRefused(
                f"buffers of {sum(sizes)} bytes are over the limit of the link, "
                f"{limits.frame_bytes}"
            )
        return find(self._memory, place, sizes)


def find(memory: ByteArray, place: int, sizes: Sequence[int]) -> list[ByteArray]:
    """Buffers of these sizes that lie from ``place`` on.

    Raises:
        FrameRefused: they do not lie within the memory.
    """
    offsets, total = spread(sizes)
    if place + total > len(memory):
        raise FrameRefused(
            f"buffers of {total} bytes at {place} do not fit a mailbox of {len(memory)}"
        )
    starts = [place + offset for offset in offsets]
    return [memory[start : start + n] for start, n in zip(starts, sizes, strict=True)]


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
