"""Whether SQLite lost acknowledged frames of a write-ahead log when it recovered it.

SQLite ends the log at the first frame that does not check. That is right for a torn tail
and wrong for a flipped byte in the middle, behind which acknowledged transactions
vanish without a word. The two are told apart by what lies behind the break::

    header | frame frame* | frame frame* | frame fra          torn: nothing behind it
    header | frame frame* | frXme frame* | frame frame*       flipped: a transaction, and
                                                              the beginning of a next one

A transaction is begun only after the one before it was written whole, so a transaction
with a frame of the same log behind it was acknowledged. (A flip in the very last
transaction looks exactly like a torn tail and ends like one.)

Waits: for the disk. Call it before SQLite opens the file. Format:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")  # magic, format, page size, sequence, salt x 2, check x 2
_FRAME = struct.Struct(">6I")  # page, pages after commit or 0, salt x 2, check x 2
_MAGIC = 0x377F0682  # the lowest bit says that checksums read big-endian words
_WORD = 0xFFFFFFFF


def acknowledged_frames(log: Path) -> int:
    """Frames of a log that were certainly acknowledged; recovery must find at least these.

    A damaged header in front of frames counts as one frame, of which SQLite recovers
    none. Zero for a missing, empty or torn log.
    """
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return 0
        _, _, page_bytes, _, *salt, _, _ = _HEADER.unpack(head)
        frame_bytes = _FRAME.size + page_bytes
        body_bytes = log.stat().st_size - _HEADER.size
        if not _header_checks(head):
            return int(body_bytes > 0)
        acknowledged = committed = 0
        for number in range(1, body_bytes // frame_bytes + 1):
            file.seek(_HEADER.size + (number - 1) * frame_bytes)
            _, pages_after_commit, *frame_salt, _, _ = _FRAME.unpack(file.read(_FRAME.size))
            if frame_salt == salt:
                acknowledged = committed
                committed = number if pages_after_commit else committed
        return acknowledged


def _header_checks(head: bytes) -> bool:
    """Whether the header's own checksum, over its first six words, is right."""
    magic, *_, expected_0, expected_1 = _HEADER.unpack(head)
    words = struct.unpack(">6I" if magic & 1 else "<6I", head[:24])
    sum_0 = sum_1 = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        sum_0 = (sum_0 + even + sum_1) & _WORD
        sum_1 = (sum_1 + odd + sum_0) & _WORD
    return magic & ~1 == _MAGIC and (sum_0, sum_1) == (expected_0, expected_1)
