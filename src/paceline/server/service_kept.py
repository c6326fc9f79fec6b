"""What servers only keep: states of tracked objects, and what never changes.

Waits for the lock of `paceline.server.service_standing.Standing`; a thread of its own
writes what never changes, and waits for storage. Any thread may call.
"""

import logging
import threading
from collections.abc import Sequence

from paceline.errors import PacelineError
from paceline.messages import AskTracked, Done, KeepFrozen, KeepTracked, Refusal
from paceline.server.contents import Bytes
from paceline.server.service_answers import give
from paceline.server.service_standing import Standing
from paceline.server.service_tracked import keep_tracked, read_tracked
from paceline.store.blobs import BlobStore
from paceline.store.constants import write_constants
from paceline.transport.service import Reply

_log = logging.getLogger("paceline.server")


def answer_kept(
    standing: Standing,
    store: BlobStore,
    message: KeepTracked | AskTracked | KeepFrozen,
    buffers: Sequence[Bytes],
    reply: Reply,
) -> None:
    """Keep, or give, what a trainer asks for."""
    if isinstance(message, KeepTracked):
        give(reply, keep_tracked(standing, message, buffers))
        return
    if isinstance(message, AskTracked):
        give(reply, *read_tracked(standing, message))
        return
    with standing.lock:
        refusal = standing.state.may_keep(message)
    if refusal is not None:
        give(reply, refusal)
        return

    def write() -> None:
        try:
            write_constants(store, message.beside, [one.data for one in buffers])
        except PacelineError as error:
            _log.warning("what never changes cannot be written yet: %s", error)
            text = f"{standing.server} cannot write frozen parameters: {error}"
            give(reply, Refusal(kind="not_ready", text=text, timeline=message.timeline))
            return
        give(reply, Done())

    threading.Thread(target=write, name=f"{standing.server}-frozen", daemon=True).start()
