"""Pulls of values as they are: read where a server of this host keeps them, or asked for.

::

    first pull of a timeline   answered by the server, which says where the values lie
    from then on               copied from there, in the moment between two updates
    not up to the round yet    waited for there, for a while
    still not, or changing     the server is asked to say when they are there; torn: again
    just now

A place belongs to a server on a timeline. Whoever does not find it (another host, another
user) asks as ever.

Waits: in `DirectPulls.read`, for a round, `WAIT_S` at most. The thread of the user's loop
calls.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import final

import msgspec

from paceline.errors import UsageError
from paceline.messages.data import Pull, Pulled, ValuesPlace
from paceline.messages.shared import Block, Message, PartPlan, Waiting
from paceline.messages.waits import Wait
from paceline.params.blocks import dtype_bytes
from paceline.params.published import ROUND_START, Bytes, ValuesReader
from paceline.trainer.client import Payload
from paceline.trainer.encoding import PartMemory
from paceline.transport.frames import ByteArray, WritableBuffer
from paceline.transport.shared_memory import find_memory, wait_change

_Found = tuple[list[int] | None, Mapping[int, ByteArray]]
"""Where a part's parameters lay, and places of a server's slots there."""

_NOWHERE: _Found = (None, {})

WAIT_S = 0.05  # a server that has died says nothing here; a question finds that out

_CHANGING = Waiting(wait=Wait("servers", "the values change just now"))


@final
class DirectPulls:
    """What one part's trainer knows of the places of its values."""

    def __init__(
        self,
        memory: PartMemory,
        landed: Callable[[], None],
        wait: Callable[[Bytes, int, int, float], None] = wait_change,
    ) -> None:
        self._wait_change = wait
        self._memory, self._landed = memory, landed
        self._timeline = -1
        self._readers: dict[str, ValuesReader | None] = {}  # {server: None: not found}
        self._blocks: dict[str, list[Block]] = {}  # {server: the part's, slots ascending}
        self._by_slot: dict[int, Block] = {}
        self._sizes: dict[int, int] = {}  # {slot: bytes}
        self._found: dict[str, _Found] = {}  # {server: where its values land}

    def follow(self, plan: PartPlan) -> None:
        """The part is cut and placed so."""
        self._blocks, self._sizes, self._found, self._timeline = {}, {}, {}, -1
        self._by_slot = {block.slot: block for block in plan.blocks}
        for block in sorted(plan.blocks, key=lambda block: block.slot):
            self._blocks.setdefault(plan.placement[block.slot], []).append(block)
            size = dtype_bytes(plan.spec.parameters[block.parameter].dtype)
            self._sizes[block.slot] = (block.stop - block.start) * size

    def payload(self, server: str, pull: Pull) -> Payload:
        """The question, with where its answer goes, or where it is read instead."""
        question = self.ask(server, pull)
        answered = partial(self.answered, server, question)
        if question.reads_there:  # when the push before it is acknowledged
            read = partial(self.read, server, question)
            return Payload(question, (), self._place, landed=answered, direct=read)
        sizes = [self._sizes[block.slot] for block in self._blocks.get(server, ())]
        return Payload(question, (), self._place, sizes, landed=answered)

    def _place(
        self, message: msgspec.Struct, _sizes: Sequence[int]
    ) -> Sequence[WritableBuffer]:
        assert isinstance(message, Pulled)
        self._landed()
        found = [self._by_slot[slot] for slot in message.slots]
        return [self._memory[block.parameter].place(block) for block in found]

    def ask(self, server: str, pull: Pull) -> Pull:
        """The question as it is sent, if it must be."""
        if pull.timeline != self._timeline:
            self._timeline = pull.timeline
            self._readers.clear()
        return msgspec.structs.replace(
            pull,
            asks_place=server not in self._readers,
            reads_there=self._readers.get(server) is not None,
        )

    def read(self, server: str, pull: Pull) -> Pulled | None:
        """Copy a server's values; None if it must be asked."""
        reader = self._readers.get(server)
        if reader is None or pull.timeline != self._timeline:
            return None
        places = self._places_of(server)
        self._landed()
        stands_at = reader.round
        if stands_at < pull.at_round and not reader.is_over:
            self._wait_change(reader.memory, ROUND_START, stands_at, WAIT_S)
        found = reader.read_into(places, pull.at_round)
        if found is None:
            return None
        return Pulled(slots=reader.slots, round=found, version=reader.version)

    def _places_of(self, server: str) -> Mapping[int, ByteArray]:
        """Where a server's values land; found anew where a parameter is elsewhere now."""
        where, (before, places) = self._memory.where(), self._found.get(server, _NOWHERE)
        blocks = self._blocks.get(server, ())
        if where is not None and where == before:
            self._memory.land_again(blocks)
        else:
            places = {b.slot: self._memory[b.parameter].place(b) for b in blocks}
            self._found[server] = where, places
        return places

    def answered(self, server: str, pull: Pull, reply: Message) -> Message:
        """Take a server's word for where values lie, or that they may be read there."""
        if not isinstance(reply, Pulled):
            return reply
        if reply.is_there:
            return self.read(server, pull) or _CHANGING
        if pull.reads_there:
            self._readers[server] = None  # the values are elsewhere by now
        if pull.asks_place and pull.timeline == self._timeline:
            self._readers[server] = self._find(server, reply.place)
        return reply

    def _find(self, server: str, place: ValuesPlace | None) -> ValuesReader | None:
        if place is None:
            return None
        memory = find_memory(place.pid, place.descriptor, place.num_bytes)
        if memory is None:
            return None
        sizes = {block.slot: self._sizes[block.slot] for block in self._blocks[server]}
        try:
            return ValuesReader(memory, sizes, place.key)
        except UsageError:
            return None  # somebody else's: a process with that number on this host
