"""A part's dense values where other processes of the host may read them by themselves.

::

    word 0, 1    key: which memory this is
    word 2       1: it is over, nothing here changes any more
    word 3       last round whose numbers are all here
    word 4       changes that were decided
    word 5       changes that are done
    word 6       version: pushes that were decided
    from 4096    the blocks of the slots, ascending, each at a multiple of 64 bytes

A reader copies while as many changes are done as were decided, and looks again afterwards
that no other was decided meanwhile: then what it has is of one moment, between two
updates, as if it had stood in the queue of every slot. If not, it asks the server.

That is sound where stores are seen in their order (x86-64). One process writes, any number
reads.

Source: seqlocks; Boehm, "Can seqlocks get along with programming language memory models?"
(2012).

Pure: its memory is handed to it, and what guards the writer's counts; `decide` comes one
at a time, in the order of decisions, all else from any thread.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, final

import numpy as np

from paceline.errors import UsageError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

KEY_BYTES: Final = 16
_HEAD_BYTES: Final = 4096
_ALIGNED_TO: Final = 64
_OVER, _ROUND, _DECIDED, _DONE, _VERSION = 2, 3, 4, 5, 6
ROUND_START: Final = 8 * _ROUND  # where in the memory the last round lies
_MOST_READS: Final = 3


def bytes_needed(sizes: Mapping[int, int]) -> int:
    """How much memory the blocks of these slots take: ``{slot: bytes}``."""
    return _offsets(sizes)[1]


@final
class PublishedValues:
    """The server's end: it writes.

    Attributes:
        blocks: ``{slot: where its values lie}``.
    """

    def __init__(
        self,
        memory: Bytes,
        sizes: Mapping[int, int],
        key: bytes,
        guard: AbstractContextManager[object],
    ) -> None:
        """Lay out zeroed memory, `bytes_needed` for these sizes, shared with readers.

        By the key readers know that they have found this memory; the guard lets one thread
        at a time change a count.
        """
        assert len(key) == KEY_BYTES
        self._guard = guard
        offsets, total = _offsets(sizes)
        assert memory.nbytes == total, f"{memory.nbytes} bytes for a layout of {total}"
        memory[:KEY_BYTES] = np.frombuffer(key, np.uint8)
        self._words = _words(memory)
        self.blocks = {
            slot: memory[start : start + sizes[slot]] for slot, start in offsets.items()
        }
        self._rounds: set[int] = set()  # done before one that comes earlier

    def decide(self) -> None:
        """Blocks are going to change: no number of them has, yet."""
        self._words[_DECIDED] += 1

    def done(self) -> None:
        """One of the changes that were decided is over; one that failed never is."""
        with self._guard:
            self._words[_DONE] += 1

    def count(self, version: int) -> None:
        """A push is decided, all of its changes are: they make values of this version."""
        self._words[_VERSION] = version

    def applied(self, number: int) -> None:
        """All numbers of a round are here; rounds may end in any order."""
        words, rounds = self._words, self._rounds
        with self._guard:
            if number > words[_ROUND] + 1:
                rounds.add(number)
            elif number > words[_ROUND]:
                while number + 1 in rounds:
                    number += 1
                    rounds.remove(number)
                words[_ROUND] = number

    def stand_at(self, applied_round: int, version: int) -> None:
        """The values are of this round and version; before readers are told of them."""
        self._words[_ROUND] = applied_round
        self._words[_VERSION] = version

    def retire(self) -> None:
        """Nothing here changes any more: readers ask."""
        self._words[_OVER] = 1


@final
class ValuesReader:
    """A reader's end.

    Attributes:
        version: of the values that were copied last.
        slots: whose values lie here, ascending.
        memory: what it reads.
    """

    def __init__(self, memory: Bytes, sizes: Mapping[int, int], key: bytes) -> None:
        """Look at memory that a server has told of.

        Raises:
            UsageError: this is another memory, or it is laid out otherwise.
        """
        self.memory = memory
        offsets, total = _offsets(sizes)
        if memory.nbytes != total or memory[:KEY_BYTES].tobytes() != key:
            raise UsageError(
                f"expected {total} bytes of values under the key told, got "
                f"{memory.nbytes} bytes under another or the same"
            )
        self.version = 0
        self._words = _words(memory)
        self._blocks = {
            slot: memory[start : start + sizes[slot]] for slot, start in offsets.items()
        }
        self.slots = tuple(self._blocks)

    @property
    def round(self) -> int:
        """The last round whose numbers are all here."""
        return self._words[_ROUND]

    @property
    def is_over(self) -> bool:
        """Whether nothing here changes any more."""
        return bool(self._words[_OVER])

    def read_into(self, places: Mapping[int, Bytes], at_round: int) -> int | None:
        """Copy all blocks, of one moment, at ``at_round`` or later; the round they are of.

        None if the server must be asked: then the bytes of the places are anything.
        """
        words = self._words
        for _ in range(_MOST_READS):
            decided = words[_DECIDED]
            if words[_DONE] != decided or words[_ROUND] < at_round or words[_OVER]:
                return None
            found, version = words[_ROUND], words[_VERSION]
            for slot, block in self._blocks.items():
                places[slot][:] = block
            if words[_DECIDED] == decided and not words[_OVER]:
                self.version = version
                return found
        return None


def _words(memory: Bytes) -> "memoryview[int]":
    """The head, each word read and written as one."""
    return memory[:_HEAD_BYTES].data.cast("q")


def _offsets(sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """``{slot: where its block begins}``, slots ascending, and where the last one ends."""
    offsets, end = {}, _HEAD_BYTES
    for slot, size in sorted(sizes.items()):
        offsets[slot] = end
        end = -(-(end + size) // _ALIGNED_TO) * _ALIGNED_TO
    return offsets, end
