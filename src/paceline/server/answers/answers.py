"""How a server answers: at once, or by actions that lead to the answer.

Waits for nothing. Any thread.
"""

from collections.abc import Sequence

from paceline.errors import FrameRefused, UsageError
from paceline.messages.shared import Message, Refusal, TrainerMessage
from paceline.server.slots import Action
from paceline.transport.frames import Buffer
from paceline.transport.service import Reply


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


def invalid(message: TrainerMessage, error: UsageError) -> Refusal:
    """A request that does not fit what is here."""
    return Refusal(kind="invalid", text=str(error), timeline=message.timeline)
