"""Dense values in memory that trainers of the same host read by themselves.

A part's blocks lie there unless their gradients are sparse: of those, trainers fetch what
has changed. Nor do values of a part with a codec for them: a trainer has them rounded, on
whatever host it is. Where the system has no such memory, or is out of it, values lie in the
server's own, and all pulls are answered.

Waits for nothing but its lock. Any thread may call.
"""

import logging
import os
import threading
from typing import final

from paceline.messages.data import ValuesPlace
from paceline.params.published import KEY_BYTES, ROUND_START, PublishedValues, bytes_needed
from paceline.server.requests import PartLayout
from paceline.server.requests.contents import Bytes
from paceline.server.slots.turns import Action, nothing
from paceline.transport.shared_memory import LentMemory, bell_of, is_supported

_log = logging.getLogger("paceline.server")


@final
class LentValues:
    """The dense blocks of one part that lie in lent memory; perhaps none.

    Attributes:
        values: they, as readers see them; None if the part lends nothing.
        place: where trainers find the values; None if they must ask.
    """

    def __init__(self, layout: PartLayout) -> None:
        """Make room for the part's blocks, if the system allows."""
        self.values: PublishedValues | None = None
        self._memory: LentMemory | None = None
        self._wake: Action = nothing  # lets trainers look that wait for a round
        self.place: ValuesPlace | None = None
        has_others = any(block.row_bytes for block in layout.blocks.values())
        is_coded = any(block.value_codec for block in layout.blocks.values())
        if has_others or is_coded or not layout.blocks or not is_supported():
            return
        sizes = {slot: block.num_bytes for slot, block in layout.blocks.items()}
        num_bytes, key = bytes_needed(sizes), os.urandom(KEY_BYTES)
        try:
            self._memory = LentMemory(num_bytes)
        except OSError as error:
            _log.warning("part %d: no memory to lend: %s", layout.part, error)
            return
        guard = threading.Lock()
        self.values = PublishedValues(self._memory.array, sizes, key, guard)
        self._wake = bell_of(self._memory.array, ROUND_START)
        self.place = ValuesPlace(os.getpid(), self._memory.fd, num_bytes, key)

    def block(self, slot: int) -> Bytes | None:
        """Memory for a slot's values; None if they lie elsewhere."""
        return None if self.values is None else self.values.blocks.get(slot)

    def applied(self, number: int) -> None:
        """All numbers of a round have followed."""
        if self.values is not None:
            self.values.applied(number)
            self._wake()

    def stand_at(self, applied_round: int, version: int) -> None:
        """Values are loaded that are of this round and version; nobody reads them yet."""
        if self.values is not None:
            self.values.stand_at(applied_round, version)

    def retire(self) -> None:
        """These values will not change any more: trainers ask."""
        if self.values is not None and self._memory is not None:
            self.values.retire()
            self._wake()
            self._memory.close()
        self.place = None
