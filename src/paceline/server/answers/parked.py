"""Requests for values that wait for a round, and since when.

Whoever waits for long is put off, and asks again: it still waits since the first time.

Waits for nothing. Called under the lock of the `ServerCore`.
"""

from typing import Final, NamedTuple, final

from paceline.messages.data import Pull, PullRows
from paceline.messages.waits import Wait
from paceline.server.requests.contents import Bytes
from paceline.transport.service import Peer, Reply

PARK_S: Final = 1.0
AGAIN_S: Final = 2.0  # who was put off asks again within this, or waits no more


class Read(NamedTuple):
    """A request for values, until when it may be parked; parked, since when it waits."""

    peer: Peer
    message: Pull | PullRows
    buffers: list[Bytes]
    reply: Reply
    until_s: float
    since_s: float | None = None


class _PutOff(NamedTuple):
    at_round: int
    since_s: float
    told_s: float


@final
class ParkedReads:
    """Those of one server."""

    def __init__(self, server: str) -> None:
        """Nobody waits."""
        self._server = server
        self._parked: list[Read] = []
        self._put_off: dict[tuple[int, int], _PutOff] = {}  # {(incarnation, part): it}

    def park(self, read: Read) -> None:
        """A request has to wait."""
        if read.since_s is None:
            read = read._replace(since_s=self._since_s(read))
        self._parked.append(read)

    def take_all(self) -> list[Read]:
        """Nobody waits any longer; who did."""
        taken, self._parked = self._parked, []
        return taken

    def drop(self, peer: Peer) -> None:
        """Nobody waits for these answers any more."""
        self._parked = [one for one in self._parked if one.peer != peer]

    def put_off(self, now: float) -> list[tuple[Read, Wait]]:
        """Those who have waited for so long that they are told what for."""
        known = self._put_off.items()
        self._put_off = {key: one for key, one in known if now - one.told_s <= AGAIN_S}
        overdue = [one for one in self._parked if one.until_s <= now]
        self._parked = [one for one in self._parked if one.until_s > now]
        told = []
        for read in overdue:
            message, since_s = read.message, read.since_s
            assert since_s is not None, "it is parked"
            reason = (
                f"round {message.at_round} of part {message.part} is not applied at "
                f"{self._server} yet"
            )
            wait = Wait("round", reason, (self._server,)).lasting(now - since_s)
            who = (message.incarnation, message.part)
            self._put_off[who] = _PutOff(message.at_round, since_s, now)
            told.append((read, wait))
        return told

    def _since_s(self, read: Read) -> float:
        """Since when the asker waits for what it asks for."""
        message, asked_s = read.message, read.until_s - PARK_S
        before = self._put_off.get((message.incarnation, message.part))
        if before is None or before.at_round != message.at_round:
            return asked_s
        return before.since_s if asked_s - before.told_s <= AGAIN_S else asked_s
