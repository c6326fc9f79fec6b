"""Gradients that have come ahead of their push.

::

    PushEarly --staged--> {slot: (tag, gradient)} of a part and an incarnation
    Push      --takes---> those that it names by slot and tag; the others are dropped

A slot has one at a time, of the block's own size, so that a trainer has at most as many
bytes here as its parts have; and no more than `MOST_BYTES`.

Pure; one at a time: the service holds its lock.
"""

from typing import Final, NamedTuple, final

import torch

from paceline.messages.data import Push, PushEarly

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
