"""Requests for the states of the user's tracked objects: bytes that servers only keep.

Waits for nothing but the lock of `paceline.server.standing.ServerCore`. Any thread
may call.
"""

from collections.abc import Sequence

from paceline.messages.data import AskTracked, KeepTracked, Tracked
from paceline.messages.shared import Done, Message, Refusal
from paceline.server.decisions import TrackedState
from paceline.server.requests.contents import Bytes
from paceline.server.standing import ServerCore


def keep_tracked(
    standing: ServerCore, message: KeepTracked, buffers: Sequence[Bytes]
) -> Message:
    """Keep a trainer's state, or its share in an average."""
    with standing.lock:
        refusal = standing.state.may_keep(message)
        if refusal is not None:
            return refusal
        if len(buffers) != 1 or message.number < 1:
            text = f"expected one buffer and a number, got {len(buffers)} of {message}"
            return Refusal(kind="invalid", text=text, timeline=message.timeline)
        data, is_average = buffers[0].tobytes(), bool(message.average)
        state = TrackedState(message.number, data, is_average)
        if message.buffers_only:
            standing.tracked.keep_share(state)
        else:
            standing.tracked.keep(state, message.incarnation)
    return Done()


def read_tracked(
    standing: ServerCore, message: AskTracked
) -> tuple[Message, Sequence[bytes]]:
    """The state of a number, as an answer with its buffers."""
    with standing.lock:
        refusal = standing.state.refusal_of(message)
        found = standing.tracked.find(message.number)
    if refusal is not None:
        return refusal, ()
    if found is None:
        text = f"no state {message.number} of tracked objects is here"
        return Refusal(kind="stale", text=text, timeline=message.timeline), ()
    return Tracked(), [found.data]
