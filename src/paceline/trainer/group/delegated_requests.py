"""A trainer's questions to servers, carried by the rank whose share they are about.

::

    leader    act --Ask--> Driver --Payload.direct--> Errands: Errand to the rank
    follower  its own connection: the server's reply; values land in its own parameters
    leader    Errands: Carried, which is the reply that its act has waited for

The leader's acts decide everything: what is asked, what a loss means, whether to ask
again. A server is one rank's, so what is asked of it behind a push is read after the push.

Waits: for servers, `timeout_s` at most in the follower; for followers without a bound. The
thread of the user's script calls.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import msgspec

from paceline.errors import DeadlineExceeded, HandshakeRefused, PeerLost
from paceline.failpoints import failpoint
from paceline.messages.data import Pull, Pulled, Push, Pushed
from paceline.messages.shared import Message, PartPlan
from paceline.timing import Clock, Deadline
from paceline.trainer.acts import Lost
from paceline.trainer.client import Courier, Payload
from paceline.trainer.engine import TrainerEngine
from paceline.trainer.group import wire as wire
from paceline.trainer.group.joint_push import GroupValues, JointGradients
from paceline.trainer.group.leader_calls import Followers
from paceline.trainer.tensors import ModelTensors
from paceline.transport.frames import Buffer


@final
class Errands:
    """The leader's: what others carry for it."""

    def __init__(
        self,
        followers: Followers,
        carrier: TrainerEngine,
        joint: JointGradients,
        values: GroupValues,
    ) -> None:
        self._followers, self._carrier = followers, carrier
        self._joint, self._values = joint, values
        self._is_possible = False
        self._number = 0
        self._came: dict[int, wire.GroupCarried] = {}  # {number: before it was asked for}

    @contextmanager
    def possible(self) -> Iterator[None]:
        """All others wait in calls meanwhile; at other times the leader asks itself."""
        self._is_possible = True
        self._came.clear()  # of an act that has given up
        try:
            yield
        finally:
            self._is_possible = False

    def entrust(self, server: str, message: Message) -> Payload | None:
        """Let the rank whose share it is ask a server, now; see `TrainerEngine.entrust`.

        Returns:
            What waits for the reply; None if it is for the leader to ask.
        """
        if not isinstance(message, Push | Pull):
            return None
        part = message.part
        # Where pushes overlap, what is asked behind one must go the same way.
        is_possible = (
            self._is_possible
            and not self._carrier.protocol.parts[part].rules.pushes_overlap
        )
        speaking = self._joint.speaking(part) if is_possible else {}
        if isinstance(message, Pull):
            self._values.pulling(part, by_shares=bool(speaking))
        speaker = speaking.get(server, 0)
        if speaker == 0:
            return None
        behind: Sequence[Buffer] = ()
        if isinstance(message, Push):
            numbers, plan = self._carrier.numbers[part], self._carrier.plan(part)
            own = numbers.attach(server, message, plan)
            assert isinstance(own.message, Push)
            message, behind = own.message, own.buffers[_num_dense(own.message) :]
        self._number += 1
        address = self._carrier.protocol.servers[server]
        errand = wire.Errand(self._number, server, address, message)
        self._followers.tell([speaker], errand, behind)
        return Payload(message, direct=partial(self._wait, speaker, self._number))

    def _wait(self, speaker: int, number: int) -> Message | Lost:
        while number not in self._came:
            carried = self._followers.receive(speaker, carried=True).message
            assert isinstance(carried, wire.GroupCarried), (
                f"{carried} before errand {number}"
            )
            self._came[carried.number] = carried
        carried = self._came.pop(number)
        return Lost(carried.lost) if carried.reply is None else carried.reply


@final
class Carrying:
    """A follower's: its own connections to servers."""

    def __init__(self, courier: Courier, clock: Clock, timeout_s: float) -> None:
        self._courier = courier
        self._clock, self._timeout_s = clock, timeout_s

    def close(self) -> None:
        """Hang up."""
        self._courier.close()

    def carry(
        self,
        errand: wire.Errand,
        buffers: Sequence[Any],
        numbers: ModelTensors,
        plan: PartPlan,
    ) -> wire.GroupCarried:
        """Ask what the leader wants asked, with numbers of this rank, which are loaded.

        ``buffers`` came with the errand.
        """
        payload = numbers.attach(errand.server, errand.message, plan)
        if isinstance(errand.message, Push):
            payload = _loaded(payload, errand.message, buffers)
            failpoint("group.before_push")
        try:
            reply = self._ask(errand, payload)
        except (PeerLost, DeadlineExceeded, HandshakeRefused) as loss:
            return wire.GroupCarried(errand.number, None, str(loss))
        if isinstance(reply, Pushed):
            failpoint("group.after_push")
        elif isinstance(reply, Pulled):
            version = reply.version
            reply = Pulled(slots=reply.slots, round=reply.round, version=version)
        return wire.GroupCarried(errand.number, reply)  # type: ignore[arg-type]  # as asked

    def _ask(self, errand: wire.Errand, payload: Payload) -> Message:
        found = payload.direct() if payload.direct is not None else None
        if isinstance(found, Message):
            return found
        incarnation = errand.message.incarnation
        deadline = Deadline(self._clock, self._timeout_s)
        connection = self._courier.reach(errand.server, errand.address, incarnation)
        try:
            number = payload.submit(connection, self._timeout_s)
            answer = connection.wait_reply(number, deadline.remaining_s())
        except BaseException:
            self._courier.drop(errand.server, connection)
            raise
        assert isinstance(answer.message, Message)
        return answer.message if payload.landed is None else payload.landed(answer.message)


def _loaded(own: Payload, push: Push, buffers: Sequence[Any]) -> Payload:
    """The leader's push with the blocks that are loaded here."""
    assert isinstance(own.message, Push)
    if not push.blocks:
        return own._replace(message=push, buffers=buffers)
    assert own.message.blocks == push.blocks, f"{own.message.blocks} for {push.blocks}"
    blocks = own.buffers[: _num_dense(own.message)]
    # Which of them lie side by side is another matter here than at the leader.
    message = msgspec.structs.replace(push, together=own.message.together)
    return own._replace(message=message, buffers=[*blocks, *buffers])


def _num_dense(push: Push) -> int:
    return len(push.together or push.blocks)
