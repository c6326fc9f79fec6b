"""Requests that bring gradients ahead of their push: held until it comes.

Waits for nothing but the lock of `paceline.server.standing.ServerCore`. Any thread
may call.
"""

from collections.abc import Sequence

from paceline.errors import UsageError
from paceline.messages.data import PushEarly
from paceline.messages.shared import Done, Message, Waiting
from paceline.messages.waits import wait_for
from paceline.server.answers.answers import give, invalid
from paceline.server.requests.contents import Bytes, read_early
from paceline.server.standing import ServerCore
from paceline.transport.service import Reply, own


def answer_early(
    standing: ServerCore, message: PushEarly, buffers: Sequence[Bytes], reply: Reply
) -> None:
    """Hold what a trainer's next push is going to name."""
    give(reply, _staged(standing, message, buffers))


def _staged(standing: ServerCore, message: PushEarly, buffers: Sequence[Bytes]) -> Message:
    if not message.is_lent:
        buffers = [own(buffer) for buffer in buffers]
    with standing.lock:
        refusal = standing.state.may_stage(message)
        if refusal is not None:
            return refusal
        try:
            layout = standing.slots.layouts[message.part]
            gradients = read_early(layout, message, buffers)
        except UsageError as error:
            return invalid(message, error)
        num_bytes = sum(buffer.nbytes for buffer in buffers)
        of_part = f"part-{message.part}"
        for name in ("gradient_bytes", "gradient_bytes_sent"):
            standing.traffic[f"{of_part}.{name}"] += num_bytes
        if standing.early.stage(message, gradients):
            return Done()
    reason = f"{standing.server} has no room for it ahead of its push"
    return Waiting(wait=wait_for("servers", reason, [standing.server]))
