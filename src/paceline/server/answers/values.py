"""Values that a trainer sends: those that a part begins with, and those set later.

Both go through the slots' queues, as a push does. What is set later counts as an update:
the next pull of everybody has it, rows that a trainer knows by an update's number too.

Waits for nothing but the lock of the `ServerCore`. Any thread may call.
"""

import functools

from paceline.errors import UsageError
from paceline.messages.data import Pushed, Upload
from paceline.messages.shared import Done, Message, Refusal, Waiting
from paceline.messages.values import SetValues
from paceline.messages.waits import wait_for
from paceline.server.answers.answers import carry_out, give, invalid
from paceline.server.requests import read_upload
from paceline.server.requests.contents import Bytes
from paceline.server.slots import Action
from paceline.server.standing import ServerCore
from paceline.transport.service import Reply


def answer_values(
    standing: ServerCore, message: Upload | SetValues, buffers: list[Bytes], reply: Reply
) -> None:
    """Set a part's values, behind all that was decided before."""
    with standing.lock:
        answer = _decide(standing, message, buffers, reply)
    carry_out(answer, reply)


def _decide(
    standing: ServerCore, message: Upload | SetValues, buffers: list[Bytes], reply: Reply
) -> Message | Action:
    """Under the lock: the answer, or what leads to it."""
    state, slots = standing.state, standing.slots
    refusal = state.may_change(message)
    if refusal is not None:
        return refusal
    try:
        values = read_upload(slots.layouts[message.part], message, buffers)
    except UsageError as error:
        return invalid(message, error)
    if isinstance(message, SetValues):
        full = slots.refusal_of(values, message)
        return full or _decide_set(standing, message, values, reply)
    if state.part(message.part).version:
        return Done()  # a late repeat: it was taken, and trained on since
    done = functools.partial(give, reply, Done())
    return slots.line_up(slots.actions.uploading(values), done, changed=(message.part,))


def _decide_set(
    standing: ServerCore, message: SetValues, values: dict[int, Bytes], reply: Reply
) -> Message | Action:
    state, slots = standing.state, standing.slots
    part = state.part(message.part)
    why_not = part.set_values(message)
    if why_not == "late":
        text = (
            f"values of part {message.part} came after a push, or others, of their sender"
        )
        return Refusal(kind="stale", text=text, timeline=message.timeline)
    if why_not == "ahead":
        reason = f"part {message.part} is not as far as the values are of"
        return Waiting(wait=wait_for("servers", reason, [standing.server]))
    pushed = Pushed(verdict="applied", version=part.version)
    if why_not == "repeat":
        return pushed

    def followed() -> None:
        with standing.lock:
            part.have_set(message)
        give(reply, standing.unless_failed(pushed))

    return slots.line_up(
        slots.actions.uploading(values),
        followed,
        message.incarnation,
        changed=(message.part,),
        version=part.version,
    )
