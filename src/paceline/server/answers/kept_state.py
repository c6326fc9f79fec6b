"""What servers only keep: states of tracked objects, and what never changes.

Waits for the lock of `paceline.server.standing.ServerCore`; a thread of its own
writes what never changes, and waits for storage. Any thread may call.
"""

import logging
import threading
from collections.abc import Sequence

from paceline.errors import PacelineError
from paceline.messages.data import AskTracked, KeepFrozen, KeepTracked, Tracked
from paceline.messages.shared import Done, Message, Refusal, RefusalKind
from paceline.server.answers.answers import give
from paceline.server.decisions import TrackedState
from paceline.server.requests.contents import Bytes
from paceline.server.standing import ServerCore
from paceline.store.blobs import BlobStore, write_constants
from paceline.transport.service import Reply

_log = logging.getLogger("paceline.server")


def answer_kept(
    standing: ServerCore,
    store: BlobStore,
    message: KeepTracked | AskTracked | KeepFrozen,
    buffers: Sequence[Bytes],
    reply: Reply,
) -> None:
    """Keep, or give, what a trainer asks for."""
    if isinstance(message, KeepTracked):
        give(reply, _keep_tracked(standing, message, buffers))
        return
    if isinstance(message, AskTracked):
        give(reply, *_read_tracked(standing, message))
        return
    sender = (message.incarnation, message.part, message.beside.name)
    with standing.lock:
        refusal = standing.state.may_keep(message) or _why_not(message, buffers)
        first, stop = message.first, message.stop
        if refusal is None and not standing.frozen.add(sender, first, stop, buffers):
            refusal = _refuse(message, "gap", "pieces before it are missing")
        whole = standing.frozen.whole()
    if refusal is not None:
        give(reply, refusal)
        return
    if stop < message.beside.bytes or (stop and not whole):  # or it comes again
        give(reply, Done())
        return

    def write() -> None:
        try:
            write_constants(store, message.beside, whole)
        except PacelineError as error:
            _log.warning("what never changes cannot be written yet: %s", error)
            text = f"{standing.server} cannot write frozen parameters: {error}"
            give(reply, Refusal(kind="not_ready", text=text, timeline=message.timeline))
            return
        with standing.lock:
            standing.frozen.written(sender)
        give(reply, Done())

    threading.Thread(target=write, name=f"{standing.server}-frozen", daemon=True).start()


def _why_not(message: KeepFrozen, buffers: Sequence[Bytes]) -> Refusal | None:
    came, most = sum(one.nbytes for one in buffers), message.beside.bytes
    if message.first >= 0 and message.first + came == message.stop <= most:
        return None
    return _refuse(message, "invalid", f"{came} bytes came, of {most}")


def _refuse(message: KeepFrozen, kind: RefusalKind, why: str) -> Refusal:
    what = f"bytes {message.first} to {message.stop} of what never changes: {why}"
    return Refusal(kind=kind, text=what, timeline=message.timeline)


def _keep_tracked(
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


def _read_tracked(
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
