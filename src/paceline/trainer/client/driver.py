"""Carries the protocol's questions to coordinator and servers, and the replies back.

::

    act --Ask--> Driver: submit to all --Courier--> connections
        <------- replies, or Lost: that connection is dropped, the next ask makes a new one
        (posted)                   submitted before whatever else is wanted
    act --Collect-> Driver: wait for what was posted, as after an Ask
    act --Pause-> Driver: waits, unless it is closed

The driver decides nothing: what a lost reply means, and whether to ask again, is the act's
to say. Numbers are attached by whoever runs the act (`Attach`).

Waits: for replies, with a deadline; in pauses. One thread runs acts; `Driver.beat` and
`Driver.close` may be called by another. A forked child may call nothing here.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast, final

import msgspec

from paceline.errors import (
    DeadlineExceeded,
    ForeignPeer,
    HandshakeRefused,
    PeerLost,
    TransportError,
    UsageError,
)
from paceline.failpoints import armed, failpoint
from paceline.ids import COORDINATOR
from paceline.messages.data import Push, Pushed
from paceline.messages.shared import Message
from paceline.messages.trainer import Beaten, Computed, Tick
from paceline.timing import Clock, Deadline
from paceline.trainer.acts import (
    Act,
    Ask,
    Collect,
    Lost,
    Pause,
    Post,
    Replies,
    SendPosted,
    Wanted,
)
from paceline.trainer.client.connections import Courier, fail_before
from paceline.trainer.client.lock_renewal import LockKeeper
from paceline.trainer.client.stopwatch import Stopwatch
from paceline.trainer.client.waits import Waits, whom_for
from paceline.trainer.protocol import TrainerProtocol
from paceline.transport.connection import Connection, Landing
from paceline.transport.frames import Buffer

T = TypeVar("T")

_LOSSES = (PeerLost, DeadlineExceeded, HandshakeRefused)


class Payload(NamedTuple):
    """A message with its numbers: what is sent, and where the reply's numbers go.

    ``landed`` is told the reply when all its numbers are there, by the acting thread; it
    may say what the reply comes to instead. ``direct`` may give the reply without asking.
    """

    message: Message
    buffers: Sequence[Buffer] = ()
    landing: Landing | None = None
    reply_sizes: Sequence[int] = ()  # bytes of the reply's buffers, as far as known
    pen: int | None = None  # where the buffers stay beyond the reply
    landed: Callable[[Message], Message] | None = None
    direct: Callable[[], Message | Lost | None] | None = None

    def submit(self, connection: Connection, timeout_s: float) -> int:
        """Send it; the number of the request."""
        return connection.submit(
            self.message,
            self.buffers,
            landing=self.landing,
            reply_sizes=self.reply_sizes,
            pen=self.pen,
            timeout_s=timeout_s,
        )


Span = Callable[[Wanted | Post], contextlib.AbstractContextManager[object]]
Attach = Callable[[str, Message], Payload]
"""(role, message) -> the message with its numbers; called again for every repetition."""


def bare(role: str, message: Message) -> Payload:
    """No numbers."""
    del role
    return Payload(message)


class Sent(msgspec.Struct, frozen=True):
    """A request that is out, until its reply was waited for."""

    connection: Connection
    request_id: int
    landed: Callable[[Message], Message] | None


class _Sending(msgspec.Struct, frozen=True):
    """Questions to several roles: those that are out, and replies that are here."""

    calls: dict[str, Message]
    are_pushes: bool
    sent: dict[str, Sent]  # {role: its request}
    later: dict[str, Payload]  # {role: what may need no asking, once it is waited for}
    replies: Replies


@final
class Driver:
    """Drives acts to their results."""

    def __init__(
        self, protocol: TrainerProtocol, courier: Courier, clock: Clock, timeout_s: float
    ) -> None:
        """Carry for one trainer; a reply that takes longer than ``timeout_s`` is lost."""
        self.waits = Waits(protocol.trainer, clock)
        self.asked_s = clock.now_s()  # when the coordinator answered last
        self.stopwatch, self.clock = Stopwatch(clock), clock
        self._protocol, self._courier = protocol, courier
        self._timeout_s = timeout_s
        self._pid = os.getpid()
        # What the time of a question is called; a profiler has names, others have none.
        self.span: Span | None = None
        self._closing = threading.Event()
        self._posted: dict[int, _Sending] = {}
        self.locks = LockKeeper(lambda server, message: self._call(server, message, 1.0))

    def check_process(self) -> None:
        """Raise UsageError in a forked process."""
        if os.getpid() != self._pid:
            raise UsageError(
                f"the session belongs to process {self._pid}; a forked process must not "
                "use it: read data there, train here"
            )

    def run(self, act: Act[T], attach: Attach = bare) -> T:
        """Drive an act to its end.

        Raises:
            UsageError: this is a forked process, or the session was closed meanwhile.
            ForeignPeer: the first who was asked is of another run, version or secret.
            PacelineError: whatever the act raises.
        """
        self.check_process()
        asking, spending = self._protocol.asking, self.stopwatch.spending
        asking.now_s, on = self.clock.now_s(), spending.on
        worked_s: float | None = None  # until it asks somebody, it computes all the time
        try:
            wanted = next(act)
            began_s = now_s = self.clock.now_s()
            worked_s = self.clock.worked_s()
            while True:
                spending.turn(whom_for(wanted, asking.posted), now_s)
                if asking.posted:
                    self._send_posted(attach, now_s)
                if self.span is None:
                    replies = self._carry(wanted, attach, now_s)
                else:
                    with self.span(wanted):
                        replies = self._carry(wanted, attach, now_s)
                asking.now_s = now_s = self.clock.now_s()
                wanted = act.send(replies)
        except StopIteration as done:
            assert not asking.posted, "an act sends what it has posted"
            self.waits.rests(asking.now_s)
            return cast("T", done.value)
        except BaseException:
            self.waits.rests(self.clock.now_s(), is_over=True)
            self._forget()
            raise
        finally:
            if worked_s is not None:
                now_s = self.clock.now_s()
                spending.turn(on, now_s)
                took_s = now_s - began_s
                self.stopwatch.waited_s += took_s - (self.clock.worked_s() - worked_s)

    def _carry(self, wanted: Wanted, attach: Attach, now_s: float) -> Replies:
        """Do what an act wants; what has been answered, if anything was to be."""
        if type(wanted) is Collect:
            sending = self._taken(wanted.posted)
            self.waits.asks(sending.calls, now_s)
            return self._gather(sending)
        if type(wanted) is Ask:
            aside = wanted.aside
            sending = self._send(wanted.calls, attach, None if aside else now_s)
            return self._gather(sending, aside=aside)
        if isinstance(wanted, Pause):
            self._pause(wanted, now_s)
        elif isinstance(wanted, SendPosted):
            self.waits.rests(self.clock.now_s())
        else:
            self._forget()
        return {}

    def _send_posted(self, attach: Attach, now_s: float) -> None:
        for post in self._protocol.asking.take_posted():
            if self.span is None:
                self._posted[post.number] = self._send(post.calls, attach, now_s)
            else:
                with self.span(post):
                    self._posted[post.number] = self._send(post.calls, attach, now_s)

    def note_spent(self) -> None:
        """Tell with the next tick what time went into; any thread may call."""
        self._protocol.asking.spent = self.stopwatch.spent()

    def tell_computed(self) -> None:
        """Tell how long batches took since this was told last; any thread may call."""
        if (told := self.stopwatch.take()) is not None:
            who = self._protocol.asking.who()
            self.tell(Computed(**who, **told._asdict()))

    def tell(self, message: Message) -> None:
        """Send the coordinator a message once; whether it arrives does not matter."""
        with contextlib.suppress(TransportError):
            self._call(COORDINATOR, message, self._timeout_s)

    def send(self, server: str, payload: Payload) -> Sent | None:
        """Send a server what `settle` waits for later; None if it cannot be reached."""
        sending = _Sending({}, False, {}, {}, {})
        self._submit(server, payload, sending)
        return sending.sent.get(server)

    def settle(self, server: str, sent: Sent) -> Message | Lost:
        """Wait for the reply to what `send` has sent."""
        return self._wait_reply(server, sent, self._timeout_s)

    def beat(self) -> None:
        """Give a sign of life, whatever the acting thread does; any thread may call.

        Raises:
            TransportError: it did not arrive; a broken connection was dropped.
        """
        protocol = self._protocol
        is_training = protocol.stage is None or protocol.stage.is_training
        beat = msgspec.structs.replace(
            protocol.asking.beat(self.waits.current()),
            state="training" if is_training else "evaluating",
            evaluated=protocol.evaluation.evaluated,
            spent=self.stopwatch.spent(),
        )
        answer = self._call(COORDINATOR, beat, self._timeout_s)
        protocol.asking.pauses |= isinstance(answer, Beaten) and answer.pauses
        self.asked_s = self.clock.now_s()

    @property
    def times_met(self) -> int:
        """How often the coordinator has been connected to."""
        return self._courier.times_met

    def close(self) -> None:
        """End a pause of the acting thread; close the connections."""
        self._closing.set()
        if os.getpid() == self._pid:
            self._courier.close()
            self.locks.stop(self._timeout_s)

    def _pause(self, pause: Pause, now_s: float) -> None:
        if pause.wait is not None:
            self.waits.pauses(pause.wait, now_s)
        if self._closing.wait(pause.seconds):
            why = "" if pause.wait is None else f": {pause.wait.reason}"
            raise UsageError(f"the session was closed while waiting{why}")

    def _call(self, role: str, message: Message, timeout_s: float) -> Message:
        where = self._address(role), self._protocol.asking.incarnation
        return self._courier.call(role, *where, message, timeout_s)

    def _address(self, role: str) -> str:
        protocol = self._protocol
        address = "" if role == COORDINATOR else protocol.asking.doors.get(role, "")
        return address or protocol.servers.get(role, "")

    def _send(
        self,
        calls: dict[str, Message],
        attach: Attach,
        now_s: float | None,
    ) -> _Sending:
        """Submit all calls, but those that may be answered without.

        It may take as long as the answer: in one process a server works in this thread.
        ``now_s``: since when their answers are waited for; None: something else is.
        """
        is_push = bool(armed) and now_s is not None and _are_pushes(calls)
        sending = _Sending(calls, is_push, {}, {}, {})
        if now_s is not None:
            self.waits.asks(calls, now_s)
        if armed:
            fail_before(calls)
        try:
            for role, message in calls.items():
                if armed and is_push and sending.sent:
                    failpoint("trainer.before_submit_rest")
                payload = attach(role, message)
                if payload.direct is None:
                    self._submit(role, payload, sending)
                else:
                    sending.later[role] = payload
        except BaseException:
            self._drop(sending)
            raise
        return sending

    def _settle_later(self, sending: _Sending) -> None:
        """Answer what can be answered here; the rest is asked for now."""
        while sending.later:
            role, payload = sending.later.popitem()
            assert payload.direct is not None
            reply = payload.direct()
            if reply is None:
                self._submit(role, payload, sending)
            else:
                sending.replies[role] = reply

    def _gather(self, sending: _Sending, *, aside: bool = False) -> Replies:
        """Collect the replies."""
        calls, sent, replies = sending.calls, sending.sent, sending.replies
        try:
            if sending.later:
                self._settle_later(sending)
            deadline = Deadline(self.clock, self._timeout_s) if len(sent) > 1 else None
            while sent:
                role = next(iter(sent))
                left_s = self._timeout_s if deadline is None else deadline.remaining_s()
                replies[role] = self._wait_reply(role, sent[role], left_s)
                del sent[role]
                if sending.are_pushes and sent and isinstance(replies[role], Pushed):
                    failpoint("trainer.between_acks")
        finally:
            if sent:
                self._drop(sending)
        if armed and isinstance(calls.get(COORDINATOR), Tick):
            failpoint("trainer.after_tick")
        if COORDINATOR in calls:
            self.asked_s = self.clock.now_s()
        if not aside:
            self.waits.heard(replies)
        return replies

    def _drop(self, sending: _Sending) -> None:
        """What is not waited for could still land in memory that is the user's again."""
        for role, request in sending.sent.items():
            self._courier.drop(role, request.connection)

    def _taken(self, posted: Post) -> _Sending:
        sending = self._posted.pop(posted.number, None)
        if sending is None:  # an act has failed since, of which the user thinks nothing
            lost: Replies = dict.fromkeys(posted.calls, Lost("the reply was let go of"))
            return _Sending(posted.calls, False, {}, {}, lost)
        return sending

    def _forget(self) -> None:
        self._protocol.asking.take_posted()
        while self._posted:
            self._drop(self._posted.popitem()[1])

    def _submit(self, role: str, payload: Payload, sending: _Sending) -> None:
        connection: Connection | None = None
        try:
            asking = self._protocol.asking
            connection = self._courier.reach(role, self._address(role), asking.incarnation)
            if asking.unreached:
                asking.reached(role)
            request_id = payload.submit(connection, self._timeout_s)
        except _LOSSES as loss:
            if isinstance(loss, ForeignPeer) and not self._protocol.asking.incarnation:
                raise  # never was a member: this is not the job that the trainer is for
            is_away = connection is None and not isinstance(loss, HandshakeRefused)
            sending.replies[role] = Lost(str(loss), is_unreached=is_away)
            if connection is not None:
                self._courier.drop(role, connection)
        else:
            sending.sent[role] = Sent(connection, request_id, payload.landed)

    def _wait_reply(self, role: str, sent: Sent, timeout_s: float) -> Message | Lost:
        try:
            answer = sent.connection.wait_reply(sent.request_id, timeout_s)
        except _LOSSES as loss:
            self._courier.drop(role, sent.connection)
            return Lost(str(loss))
        assert isinstance(answer.message, Message)
        return answer.message if sent.landed is None else sent.landed(answer.message)


def _are_pushes(calls: dict[str, Message]) -> bool:
    return all(isinstance(message, Push) for message in calls.values())
