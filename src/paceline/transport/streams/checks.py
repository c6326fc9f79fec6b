"""The checksums of frames that come in over a link without TLS, between hosts.

TCP's own sum misses a flipped bit once in some ten thousand, and network cards and routers
have been seen to flip them behind it. What is refused here would have been a wrong number.

Pure. One thread at a time.
"""

from collections import deque
from typing import final

import xxhash

from paceline.errors import FrameDamaged
from paceline.transport.frames import CHECKSUM_BYTES

_DAMAGED = (
    "the checksum of a frame's {} does not match: damaged on the way; what the frame "
    "carried is not used"
)


@final
class FrameCheck:
    """Compares the checksums of one frame after the other."""

    def __init__(self) -> None:
        self._so_far = xxhash.xxh3_64()
        self._unseen_bytes = 0  # of the payload
        self._trailer = bytearray(CHECKSUM_BYTES)

    def header_of(self, preamble: bytearray, header: bytearray) -> memoryview:
        """The header without the checksum behind it, which holds.

        Raises:
            FrameDamaged: it does not.
        """
        whole = memoryview(header)[:-CHECKSUM_BYTES]
        self._so_far = xxhash.xxh3_64(preamble)
        self._so_far.update(whole)
        if self._so_far.digest() != header[-CHECKSUM_BYTES:]:
            raise FrameDamaged(_DAMAGED.format("header"))
        return whole

    def expect(self, payload_bytes: int) -> list[memoryview]:
        """Where the checksum behind a payload goes; nowhere, if that is empty."""
        self._unseen_bytes = payload_bytes
        return [memoryview(self._trailer)] if payload_bytes else []

    def came(self, views: deque[memoryview], count: int) -> None:
        """So many bytes are in ``views``, of the payload and then of its checksum.

        They are read at once, as long as they are near; and later they need not be there
        any more: a request that is given up takes its memory with it.
        """
        count = min(count, self._unseen_bytes)
        self._unseen_bytes -= count
        for view in views:
            if not count:
                return
            part = view[:count]
            self._so_far.update(part)
            count -= part.nbytes

    def require_whole(self) -> None:
        """A frame has come with its payload.

        Raises:
            FrameDamaged: the checksum does not hold.
        """
        if self._so_far.digest() != self._trailer:
            raise FrameDamaged(_DAMAGED.format("payload"))
