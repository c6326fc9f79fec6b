"""What comes ahead: gradients before their push, and bytes piece by piece.

::

    PushEarly --staged--> {slot: (tag, gradient)} of a part and an incarnation
    Push      --takes---> those that it names by slot and tag; the others are dropped

A slot has one at a time, of the block's own size, so that a trainer has at most as many
bytes here as its parts have; and no more than `MOST_BYTES`.

Pure; one at a time: the service holds its lock.
"""

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple, final

import torch

from paceline.messages.data import Push, PushEarly
from paceline.server.requests.contents import Bytes

Gradients = dict[int, torch.Tensor]  # {dense slot: gradient (n,)}
MOST_BYTES: Final = 1 << 30  # of one trainer


class _Piece(NamedTuple):
    tag: int
    gradient: torch.Tensor


@final
class EarlyGradients:
    """What trainers have sent ahead of pushes that have not come yet.

    Attributes:
        staged: ``{(part, incarnation): {slot: what has come}}``.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Nothing has come; of each trainer there is room for so many bytes."""
        self._most_bytes = most_bytes
        self.staged: dict[tuple[int, int], dict[int, _Piece]] = {}

    def num_bytes(self, incarnation: int) -> int:
        """How many bytes of an incarnation wait."""
        return sum(
            piece.gradient.nbytes
            for (_, sender), pieces in self.staged.items()
            if sender == incarnation
            for piece in pieces.values()
        )

    def stage(self, message: PushEarly, gradients: Gradients) -> bool:
        """Hold gradients for their push; false if there is no room.

        Of two for one slot the later counts, in whatever order they come.
        """
        key = message.part, message.incarnation
        there = self.staged.get(key, {})
        replaced = [there[slot].gradient.nbytes for slot in gradients if slot in there]
        coming = sum(gradient.nbytes for gradient in gradients.values()) - sum(replaced)
        if self.num_bytes(message.incarnation) + coming > self._most_bytes:
            return False
        pieces = self.staged.setdefault(key, {})
        for slot, gradient in gradients.items():
            if slot not in pieces or pieces[slot].tag < message.tag:
                pieces[slot] = _Piece(message.tag, gradient)
        return True

    def take(self, push: Push) -> Gradients | None:
        """What a push names; None if not all of it is here.

        Whatever else waited for it is dropped.
        """
        pieces = self.staged.pop((push.part, push.incarnation), {})
        found: Gradients = {}
        for slot, tag in push.early.items():
            piece = pieces.get(slot)
            if piece is None or piece.tag != tag:
                return None
            found[slot] = piece.gradient
        return found

    def drop(self, incarnation: int) -> None:
        """Nothing of an incarnation waits any more."""
        for key in [key for key in self.staged if key[1] == incarnation]:
            del self.staged[key]


@final
class ComingBytes:
    """Bytes of one sender at a time, each piece in a message of its own.

    Who begins anew takes the place of whoever was before.
    """

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
