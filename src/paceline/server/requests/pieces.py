"""Bytes that come in pieces, each in a message of its own: those of one sender at a time.

Pure; the service holds its lock.
"""

from collections.abc import Hashable, Sequence
from typing import final

from paceline.server.requests.contents import Bytes


@final
class ComingBytes:
    """What has come so far; who begins anew takes the place of whoever was before."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._whose: Hashable = None
        self._pieces: list[bytes] = []
        self._stop = 0

    def add(self, whose: Hashable, first: int, stop: int, piece: Sequence[Bytes]) -> bool:
        """Bytes ``first..stop`` of a sender's have come; false if some before are missing.

        A piece that comes again, since its answer was lost, changes nothing.
        """
        if whose != self._whose:
            self._whose, self._pieces, self._stop = whose, [], 0
        if stop <= self._stop:
            return True
        if first != self._stop:
            return False
        self._pieces += [bytes(one) for one in piece]
        self._stop = stop
        return True

    def whole(self) -> list[bytes]:
        """All that has come; it is kept until it is `written`, for storage that fails."""
        return list(self._pieces)

    def written(self, whose: Hashable) -> None:
        """All of a sender's is written: no byte of it is needed any more."""
        if whose == self._whose:
            self._pieces = []
