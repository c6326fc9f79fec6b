"""How a server answers: at once, or by actions that lead to the answer.

Waits for nothing. Any thread.
"""

from collections.abc import Callable, Sequence
from typing import final

import msgspec

from paceline.errors import FrameRefused, UsageError
from paceline.messages.data import PulledRows
from paceline.messages.shared import Message, Refusal, TrainerMessage
from paceline.server.requests.contents import Bytes
from paceline.server.slots import Action
from paceline.transport.frames import Buffer
from paceline.transport.service import Reply, places_of


def give(reply: Reply, message: Message, buffers: Sequence[Buffer] = ()) -> None:
    """Answer; an answer that cannot travel is refused."""
    try:
        reply(message, buffers)
    except FrameRefused as error:
        reply(Refusal(kind="invalid", text=f"the answer cannot travel: {error}"))


def carry_out(answered: Message | Action, reply: Reply) -> None:
    """Give an answer, or do what leads to it."""
    if isinstance(answered, Message):
        give(reply, answered)
    else:
        answered()


@final
class RowsReply:
    """The way back of rows, of which ``wrap`` makes another answer."""

    def __init__(self, reply: Reply, wrap: Callable[[PulledRows], Message]) -> None:
        self._reply, self._wrap = reply, wrap

    def places(self, sizes: Sequence[int]) -> list[Bytes]:
        """See `RoomyReply.places`."""
        return places_of(self._reply, sizes)

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        """See `Reply`."""
        if isinstance(message, PulledRows):
            message = self._wrap(message)
        self._reply(message, buffers)


def invalid(message: TrainerMessage, error: UsageError) -> Refusal:
    """A request that does not fit what is here."""
    return Refusal(kind="invalid", text=str(error), timeline=message.timeline)
