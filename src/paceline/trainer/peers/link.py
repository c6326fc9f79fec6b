"""The link between trainers: a door that others come to, and the way to theirs.

A request is looked at only if its asker is who it says, on this timeline, and means this
incarnation::

    the asker's trainer was here as a later one    fenced      it is over
    the asker's timeline was left                  timeline    it will hear of it
    the asker means who was here before            stale       it must ask who is here now
    the asker is ahead of this trainer             not_ready   this one will hear of it

A refusal decides nothing for good but ``fenced``: incarnations and timelines only grow.
Nobody learns of a death here: whoever waits asks the coordinator who is there, and has a
deadline.

Waits: `wait_answer` and `wait_peers`, until their deadlines. Any thread may call; answerers
are called by the door's threads and must not wait.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec

from paceline.errors import DeadlineExceeded, PeerLost, Refused, TransportError, UsageError
from paceline.ids import COORDINATOR
from paceline.messages.meeting import AskPeers, DoorOpened, LivingTrainer, Peers
from paceline.messages.peers import PeerMessage
from paceline.messages.shared import Message, Refusal, TrainerMessage, Waiting
from paceline.timing import Clock, Deadline
from paceline.trainer.client import Courier
from paceline.trainer.protocol import TrainerProtocol
from paceline.transport import service as link
from paceline.transport.connection import Answer, Connection, Landing
from paceline.transport.frames import Buffer, ByteArray
from paceline.transport.listener import Listener

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.25
LEAST_CALL_S = 0.5  # a question is asked for so long at least: else it is asked in vain
NO_LINK = (
    "a trainer of several processes has no link to other trainers: use "
    "--ranks-per-trainer 1"
)
_PATIENCE = frozenset({"not_ready", "stale"})  # refusals that another try may mend


class PeerWires(NamedTuple):
    """How one trainer opens its door, and reaches those of others.

    ``listen``: let the trainers of the run in. ``connect``: (address, incarnation) -> a
    fresh connection to another's door.
    """

    listen: Callable[[link.Service], Listener]
    connect: Callable[[str, int], Connection]


Answerer = Callable[[str, PeerMessage, list[ByteArray], link.Reply], None]
"""(asker, request, buffers, way back): answers, now or later; see `Service.received`."""


@final
class Admission:
    """The trainers that have come to one trainer's door."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # {trainer: its latest incarnation here}

    def refusal_of(
        self, asker: str, message: PeerMessage, incarnation: int, timeline: int | None
    ) -> Refusal | None:
        """Why a request is not even looked at; None if it is.

        ``incarnation`` and ``timeline`` are of whom is asked; None: it does not matter.
        """
        at = message.timeline if timeline is None else timeline
        newest = max(self._newest.get(asker, 0), message.incarnation)
        self._newest[asker] = newest
        if message.incarnation < newest:
            text = f"{asker}: incarnation {message.incarnation} is over; {newest} was here"
            return Refusal(kind="fenced", text=text, timeline=at)
        if message.timeline < at:
            text = f"timeline {message.timeline} was left; now is {at}"
            return Refusal(kind="timeline", text=text, timeline=at)
        if message.to < incarnation:
            text = f"incarnation {message.to} is over; now here is {incarnation}"
            return Refusal(kind="stale", text=text, timeline=at)
        if message.timeline > at or message.to > incarnation:
            text = (
                f"incarnation {incarnation} on timeline {at} has not heard of "
                f"incarnation {message.to} on timeline {message.timeline} yet"
            )
            return Refusal(kind="not_ready", text=text, timeline=at)
        return None


@final
class PeerLink:
    """One trainer's door, and its way to the others'; a `Service` of the transport."""

    def __init__(
        self,
        protocol: TrainerProtocol,
        courier: Courier,
        clock: Clock,
        timeout_s: float,
        wires: PeerWires | None = None,
    ) -> None:
        """A reply that takes longer than ``timeout_s`` is asked for again."""
        self._wires = wires
        self._protocol, self._courier = protocol, courier
        self._clock, self._timeout_s = clock, timeout_s
        self._answerers: dict[type[PeerMessage], Answerer] = {}
        # Done several times a second or so: what others wait for too long is answered.
        self.look: Callable[[], None] = _nothing
        self._timeless: set[type[PeerMessage]] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards the fields below
        self._door: Listener | None = None
        self._doors: Courier | None = None  # the way to the others'
        self._known: dict[str, LivingTrainer] = {}
        self._acquaintances = Admission()

    def answer(
        self, kind: type[PeerMessage], answerer: Answerer, *, is_timeless: bool = False
    ) -> None:
        """From here on requests of this kind are answered so.

        ``is_timeless``: on whatever timeline the asker is: a return to a cut means nothing.
        """
        self._answerers[kind] = answerer
        if is_timeless:
            self._timeless.add(kind)

    def open(self) -> None:
        """Open the door if it is closed; others find it as soon as they ask.

        Raises:
            UsageError: this trainer can have none.
        """
        with self._lock:
            if self._door is not None:
                return
            if self._closing.is_set():
                raise UsageError("the session is closed; connect again")
            if self._wires is None:
                raise UsageError(NO_LINK)
            self._door = self._wires.listen(self)
            self._doors = Courier(_nobody, self._wires.connect)
            self._courier.doors = self._doors
        with contextlib.suppress(TransportError):  # it will be told later
            self.tell_open()

    def tell_open(self) -> None:
        """Tell the coordinator where the door is, if it is open; told now and then.

        Raises:
            TransportError: it did not arrive.
        """
        door = self._door
        if door is not None and self._protocol.asking.incarnation:
            who = self._protocol.asking.who()
            self._ask_coordinator(DoorOpened(**who, address=door.address), self._timeout_s)

    @property
    def trainer(self) -> str:
        """Whose door it is."""
        return self._protocol.trainer

    @property
    def incarnation(self) -> int:
        """Of the trainer, now."""
        return self._protocol.asking.incarnation

    @property
    def address(self) -> str:
        """Of the door; empty while it is closed."""
        return "" if self._door is None else self._door.address

    def close(self) -> None:
        """Close the door; who waits here is told that the session was closed."""
        self._closing.set()
        with self._lock:
            door, doors = self._door, self._doors
        if doors is not None:
            doors.close()
        if door is not None:
            door.close()

    def received(
        self,
        peer: link.Peer,
        message: msgspec.Struct,
        buffers: list[ByteArray],
        reply: link.Reply,
    ) -> None:
        """See `Service.received`."""
        assert isinstance(message, PeerMessage)
        protocol = self._protocol
        timeline = None if type(message) in self._timeless else protocol.asking.timeline
        with self._lock:
            refusal = self._acquaintances.refusal_of(
                peer.role, message, protocol.asking.incarnation, timeline
            )
        answerer = self._answerers.get(type(message))
        if refusal is not None:
            reply(refusal)
        elif answerer is None:
            text = f"{protocol.trainer} does not answer {type(message).__name__} yet"
            reply(Refusal(kind="not_ready", text=text, timeline=protocol.asking.timeline))
        else:
            answerer(peer.role, message, buffers, reply)

    def disconnected(self, peer: link.Peer) -> None:
        """See `Service.disconnected`: it may come again."""

    def wait_peers(self, timeout_s: float) -> dict[str, LivingTrainer]:
        """All other living trainers, asked anew: {trainer: incarnation and address}.

        Raises:
            Refused: this trainer's membership or timeline is over (``fenced``,
                ``timeline``).
            DeadlineExceeded: the coordinator did not answer for so long.
        """
        deadline, pause_s = Deadline(self._clock, timeout_s), FIRST_PAUSE_S
        while True:
            try:
                who = self._protocol.asking.who()
                left_s = min(self._timeout_s, max(deadline.remaining_s(), LEAST_CALL_S))
                answer = self._ask_coordinator(AskPeers(**who), left_s)
            except TransportError as error:
                reason = f"the coordinator is away: {error}"
            else:
                if isinstance(answer, Peers):
                    peers = dict(answer.peers)
                    peers.pop(self._protocol.trainer, None)
                    with self._lock:
                        self._known = peers
                    return peers
                assert isinstance(answer, Refusal)
                raise Refused(answer.kind, answer.text)
            pause_s = self._pause(deadline, pause_s, "the other trainers", reason)

    def wait_answer(
        self,
        trainer: str,
        message: PeerMessage,
        buffers: Sequence[Buffer] = (),
        *,
        timeout_s: float,
        landing: Landing | None = None,
    ) -> Answer:
        """Ask another trainer until it answers with more than `Waiting`.

        It is asked again, and found anew, as long as there is time: the request must bear
        to arrive twice. Who asks, on which timeline, and who is meant is filled in.

        Args:
            trainer: role id.
            message: the request.
            buffers: its numbers; they must stay as they are until this returns.
            timeout_s: in all.
            landing: where the reply's numbers go; see `Connection.submit`.

        Raises:
            Refused: for good: this trainer's membership or timeline is over (``fenced``,
                ``timeline``), or the request is none that is answered.
            DeadlineExceeded: it did not answer; the text says why.
            UsageError: there is no door, or the session was closed meanwhile.
        """
        self.open()
        deadline, pause_s = Deadline(self._clock, timeout_s), FIRST_PAUSE_S
        while True:
            found = self._known.get(trainer)
            if found is None or not found.address:
                found = self.wait_peers(max(deadline.remaining_s(), LEAST_CALL_S)).get(
                    trainer
                )
            if found is None:
                reason = f"{trainer} is no member of the job now"
            elif not found.address:
                reason = f"{trainer} has not opened its door yet"
            else:
                left_s = min(self._timeout_s, max(deadline.remaining_s(), LEAST_CALL_S))
                answer = self._ask_once(trainer, found, message, buffers, left_s, landing)
                if isinstance(answer, Answer):
                    return answer
                reason = answer
            pause_s = self._pause(deadline, pause_s, trainer, reason)

    def _ask_once(
        self,
        trainer: str,
        peer: LivingTrainer,
        message: PeerMessage,
        buffers: Sequence[Buffer],
        left_s: float,
        landing: Landing | None,
    ) -> Answer | str:
        """The answer, or why there is none yet."""
        who = self._protocol.asking.who()
        asked = msgspec.structs.replace(message, **who, to=peer.incarnation)
        doors, connection = self._doors, None
        assert doors is not None, "open the door first"
        try:
            connection = doors.reach(trainer, peer.address, who["incarnation"])
            answer = connection.call(asked, buffers, timeout_s=left_s, landing=landing)
        except TransportError as loss:
            if connection is not None:
                doors.drop(trainer, connection)
            with self._lock:
                self._known.pop(trainer, None)
            return str(loss)
        reply = answer.message
        if isinstance(reply, Waiting):
            return reply.wait.reason
        if not isinstance(reply, Refusal):
            return answer
        if reply.kind not in _PATIENCE:
            raise Refused(reply.kind, reply.text)
        with self._lock:
            self._known.pop(trainer, None)
        return reply.text

    def _ask_coordinator(self, message: TrainerMessage, timeout_s: float) -> Message:
        who = self._protocol.asking.incarnation
        return self._courier.call(COORDINATOR, "", who, message, timeout_s)

    def _pause(self, deadline: Deadline, pause_s: float, what: str, reason: str) -> float:
        """Wait a little; how long the next pause is."""
        if deadline.is_over():
            raise DeadlineExceeded(f"{what}: no answer in time: {reason}")
        if self._closing.wait(min(pause_s, deadline.remaining_s())):
            raise UsageError(f"the session was closed while waiting: {reason}")
        return min(2 * pause_s, LONGEST_PAUSE_S)


def _nothing() -> None:
    """Nobody waits here yet."""


def _nobody(incarnation: int) -> Connection:
    del incarnation
    raise PeerLost("this way leads to other trainers only")
