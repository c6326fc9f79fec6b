"""How a server answers: at once, by actions that lead to the answer, or later.

Rows may be asked for behind a push, in the same request::

    push with rows behind it    the push, as if it came alone
      acknowledged              the rows, as if they were asked for now
                                one answer with both
      anything else             that is the answer: the trainer comes again with the same

So the rows are read after the push, however often it had to come: a repeated one is a
duplicate, and is acknowledged. Whatever thread acknowledges the push asks for the rows.

Waits for nothing but the lock of the `ServerCore`. Any thread.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, final

import msgspec

from paceline.errors import FrameRefused, UsageError
from paceline.messages.data import PulledRows, PullRows, Push, Pushed
from paceline.messages.shared import Message, Refusal, TrainerMessage, Waiting
from paceline.messages.waits import wait_for
from paceline.parking import PARK_S, ParkedQuestion, Parking
from paceline.server.requests.contents import Bytes
from paceline.server.slots import Action
from paceline.server.standing import ServerCore
from paceline.timing import Clock
from paceline.transport.frames import Buffer
from paceline.transport.service import Peer, Reply, places_of

KeyT = TypeVar("KeyT")
AskRows = Callable[[PullRows, list[Bytes], Reply], None]


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


class WaitingRequest(ParkedQuestion, frozen=True):
    """A request, which may have to wait."""

    peer: Peer
    message: Any  # of the kind that is answered
    buffers: list[Bytes]
    reply: Reply


@final
class Waiters(Generic[KeyT]):
    """Requests of one kind: each is answered as soon as it can be.

    Attributes:
        parked: those that wait, by the lock of the `ServerCore`.
    """

    def __init__(
        self,
        standing: ServerCore,
        clock: Clock,
        decide: Callable[[WaitingRequest], Message | Action | None],
        key_of: Callable[[WaitingRequest], KeyT],
        parked: Parking[KeyT, WaitingRequest],
    ) -> None:
        """``decide``, under the lock: the answer, what leads to it, or None: it waits.

        ``key_of`` names one that waits.
        """
        self._standing, self._clock = standing, clock
        self._decide, self._key_of, self.parked = decide, key_of, parked

    def ask(self, peer: Peer, message: object, buffers: list[Bytes], reply: Reply) -> None:
        """Answer, now or later."""
        now_s = self._clock.now_s()
        asked = WaitingRequest(
            peer, message, buffers, reply, until_s=now_s + PARK_S, since_s=now_s
        )
        with self._standing.lock:
            answer = self._decide(asked)
            if answer is None:
                self.parked.park(self._key_of(asked), asked)
                return
        carry_out(answer, reply)

    def look_again(self) -> None:
        """Something has changed: answer what can be answered now."""
        if not self.parked.asked:  # whoever comes just now is decided behind the change
            return
        with self._standing.lock:
            keys = list(self.parked.asked)
        for key in keys:
            self.look_at(key)

    def look_at(self, key: KeyT) -> None:
        """Answer one that waits, if it can be answered now."""
        with self._standing.lock:
            asked = self.parked.asked.get(key)
            answer = None if asked is None else self._decide(asked)
            if asked is None or answer is None:
                return
            self.parked.take(key)
        carry_out(answer, asked.reply)

    def disconnected(self, peer: Peer) -> None:
        """Nobody waits for these answers any more."""
        with self._standing.lock:
            for key, asked in list(self.parked.asked.items()):
                if asked.peer == peer:
                    self.parked.take(key)

    def close(self) -> None:
        """Nobody is answered by this server any more."""
        with self._standing.lock:
            parked = self.parked.take_all()
        server = self._standing.server
        closes = Waiting(wait=wait_for("servers", f"{server} closes", [server]))
        for asked in parked:
            give(asked.reply, closes)


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


def with_rows(
    push: Push, buffers: list[Bytes], reply: Reply, ask: AskRows
) -> tuple[list[Bytes], Reply]:
    """What there is of the push itself: its buffers, and the way back to it.

    Raises:
        UsageError: the push is of a round, whose rows are there only when all have pushed.
    """
    assert push.behind is not None
    if push.round is not None:
        raise UsageError(
            f"a push of round {push.round} is acknowledged before it is applied: expected "
            "rows to be asked for by themselves, got them behind it"
        )
    stop = max(0, len(buffers) - len(push.behind.rows))
    return buffers[:stop], _Acknowledged(push.behind, buffers[stop:], reply, ask)


@final
class _Acknowledged:
    """The way back of the push."""

    def __init__(
        self, behind: PullRows, ids: list[Bytes], reply: Reply, ask: AskRows
    ) -> None:
        self._behind, self._ids = behind, ids
        self._reply, self._ask = reply, ask

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, Pushed):
            both = functools.partial(_both, message)
            self._ask(self._behind, self._ids, RowsReply(self._reply, both))
        else:
            self._reply(message, buffers)


def _both(pushed: Pushed, rows: PulledRows) -> Pushed:
    return msgspec.structs.replace(pushed, behind=rows)


def invalid(message: TrainerMessage, error: UsageError) -> Refusal:
    """A request that does not fit what is here."""
    return Refusal(kind="invalid", text=str(error), timeline=message.timeline)
