"""Memory that two processes of one host share: buffers of requests and replies lie in it.

::

    client   copies the buffers into the mailbox, sends the frame that says where they lie
             and where there is room for those of the reply
    server   reads them in place, writes the reply's in place, replies
    client   copies those to where they belong

So large buffers are copied once, and no kernel buffer limits how they travel. The mailbox
is an anonymous file (`memfd_create`): it has no name that could be left over, and it is
sealed, so that nobody can shrink it under the other. It belongs to one connection. After a
loss nothing is written into it any more: a server that is still reading reads what was
sent.

The frame that names a place goes through the socket after the copy, so whoever has it sees
the bytes.

Waits for nothing. Any thread may call.
"""

import fcntl
import mmap
import os
import threading
from collections.abc import Sequence
from typing import final

import msgspec

from paceline.errors import FrameRefused
from paceline.transport.frames import ByteArray, InMailbox, Limits, Room, byte_array, spread

# What is smaller travels as fast in the frame.
LEAST_BYTES = 16 << 10
_ROUNDS_UP_TO = 1 << 26
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class MailboxOffer(msgspec.Struct, frozen=True, tag="Offer"):  # as it is called on the wire
    """A mailbox comes with this frame: its descriptor, and its size."""

    num_bytes: int


_offers = msgspec.msgpack.Decoder(MailboxOffer)


def decode_offer(message: msgspec.Raw) -> MailboxOffer:
    """Decode what comes with a descriptor.

    Raises:
        FrameRefused: it is something else.
    """
    try:
        return _offers.decode(message)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FrameRefused(f"expected a mailbox, got something else: {error}") from error


@final
class Outgoing:
    """The client's end: where requests are put."""

    def __init__(self, num_bytes: int) -> None:
        """Make room for requests of ``num_bytes`` together, or more.

        Raises:
            OSError: the system has no such files, or no memory for one.
        """
        self.num_bytes = -(-num_bytes // _ROUNDS_UP_TO) * _ROUNDS_UP_TO
        name = f"paceline-{os.getpid()}"  # seen in /proc/*/maps: whose it is
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, self.num_bytes)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            self._memory = byte_array(memoryview(mmap.mmap(fd, self.num_bytes)))
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd  # until `close`
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
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            size = os.fstat(fd).st_size
            if seals & _SEALS != _SEALS or size != offer.num_bytes or size == 0:
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
