"""The coordinator of an embedded job, as other processes may ask it: status and pace.

Waits: for nothing. Any thread may call.
"""

from typing import final

import msgspec

from paceline.messages.shared import Refusal
from paceline.messages.watching import Scale
from paceline.transport.frames import ByteArray
from paceline.transport.service import Peer, Reply, Service

NO_MORE_TRAINERS = (
    "scale: this job runs in the process of its script (python train.py), which is its "
    "only trainer; end it by Ctrl-C, which saves, and go on with more by paceline run "
    "--resume --trainers N"
)


@final
class OutsideDoor:
    """Passes questions on, but those that need a launcher; a transport's `Service`."""

    def __init__(self, coordinator: Service) -> None:
        self._coordinator = coordinator

    def received(
        self,
        peer: Peer,
        message: msgspec.Struct,
        buffers: list[ByteArray],
        reply: Reply,
    ) -> None:
        """See `Service`."""
        if isinstance(message, Scale):
            reply(Refusal(kind="invalid", text=NO_MORE_TRAINERS, timeline=0))
        else:
            self._coordinator.received(peer, message, buffers, reply)

    def disconnected(self, peer: Peer) -> None:
        """Nobody who comes by here is a member; and connections are numbered anew here."""
