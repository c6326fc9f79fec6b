"""Asking other roles, patiently: what a trainer does until it gets an answer.

An act is a generator: it yields what it wants asked (`Ask`: one message to each of
several roles at once) or how long to wait (`Pause`), and is sent the replies. It may also
post a question first (`Asking.post`), do other things, and wait later (`Collect`): what is
posted to a role is answered in the order of posting.

The coordinator is asked until it answers at all, also while it cannot journal; servers
until all have answered, as long as the coordinator says that this trainer and its timeline
still exist. When they do not, `Abandoned` is raised inside the act.

Pure.
"""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypedDict, TypeVar, final

import msgspec

from paceline.errors import JobFailed, Refused, UsageError
from paceline.ids import COORDINATOR, role_kind
from paceline.messages.shared import (
    Message,
    Refusal,
    RefusalKind,
    SpentTime,
    TrainerClock,
    Waiting,
)
from paceline.messages.trainer import Beat, Beaten, Granted, Ticked
from paceline.messages.waits import Wait, WaitKind, first_of

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


class Ask(msgspec.Struct, frozen=True):
    """Ask several roles at once; send back ``{role: reply or Lost}``.

    ``aside``: while something else is waited for, which an answer to this does not end.
    """

    calls: dict[str, Message]
    aside: bool = False


class Post(msgspec.Struct, frozen=True):
    """Questions that others may answer while the act does other things."""

    number: int
    calls: dict[str, Message]


class Collect(msgspec.Struct, frozen=True):
    """Wait for the replies to what was posted; send back ``{role: reply or Lost}``."""

    posted: Post


class SendPosted(NamedTuple):
    """Nothing but that what was posted is sent; send back nothing."""


class ForgetPosted(NamedTuple):
    """Let go of all that was posted and not collected; send back nothing."""


class Pause(msgspec.Struct, frozen=True):
    """Let time pass, then go on; ``wait`` says what for, None: not for anybody."""

    seconds: float
    wait: Wait | None = None


class Lost(NamedTuple):
    """No reply: the connection broke or the deadline passed.

    ``is_unreached``: none could be made.
    """

    reason: str
    is_unreached: bool = False


Replies = dict[str, Message | Lost]
T = TypeVar("T")
Wanted = Ask | Collect | SendPosted | ForgetPosted | Pause
Act = Generator[Wanted, Replies, T]


class Collected(msgspec.Struct, frozen=True):
    """All replies; ``is_first``: nobody had to be asked again."""

    replies: dict[str, Message]
    is_first: bool


class Abandoned(Exception):  # noqa: N818  (control flow of acts, never raised out of them)
    """What the trainer was doing belongs to a timeline or incarnation that is gone.

    Attributes:
        is_counted: the coordinator had counted the step; only values after it are missing.
    """

    def __init__(self, reason: str, *, is_counted: bool = False) -> None:
        super().__init__(reason)
        self.is_counted = is_counted


class WhoAsks(TypedDict):
    """The fields of every message of a joined trainer."""

    incarnation: int
    timeline: int


@final
class Asking:
    """Who the trainer is to others, and how it asks them."""

    def __init__(self, patience_s: float) -> None:
        """Not yet a member; the coordinator may be away for ``patience_s``."""
        self.incarnation = self.timeline = self.pid = 0
        self.host = ""  # where its process is; told when it joins
        self.clock = 0  # pushes that are acknowledged
        self.bounded_clock: TrainerClock | None = None  # steps, where a pace bounds them
        self.stopped: str | None = None
        self.records = 0  # of the job, acknowledged, as it was told last
        self.pauses = False  # leases go back before the next batch; set by beats, too
        self.now_s = 0.0  # told by whoever drives the acts
        self.spent: SpentTime | None = None  # by whom, too: yet to be told
        self.servers: dict[str, str] = {}  # {server id: address}
        self.unreached: tuple[str, ...] = ()  # of those that are waited for
        self.doors: dict[str, str] = {}  # {trainer: address}: of those in the exchange
        self.patience_s = patience_s
        self.posted: list[Post] = []  # and yet to be sent
        self._num_posted = 0

    def ask(self, message: Message) -> Act[Message]:
        """Ask the coordinator until it gives more than `Waiting`."""
        while True:
            reply = yield from self.insist(message)
            self._heard(reply, ())
            if not isinstance(reply, Waiting):
                return reply

    def ask_once(
        self, message: Message, *answers: RefusalKind, aside: bool = False
    ) -> Act[Message]:
        """Ask the coordinator; `Waiting` and refusals of kinds ``answers`` are answers.

        ``aside``: see `Ask`.
        """
        reply = yield from self.insist(message, aside=aside)
        self._heard(reply, answers)
        return reply

    def _heard(self, reply: Message, answers: tuple[RefusalKind, ...]) -> None:
        if isinstance(reply, Refusal) and reply.kind not in answers:
            self._raise_for(reply)
        if isinstance(reply, _WITH_PAUSES):
            self.pauses = reply.pauses
        elif isinstance(reply, Granted):
            self.pauses = False

    def insist(self, message: Message, *, aside: bool = False) -> Act[Message]:
        """Ask the coordinator until it answers at all."""
        reply = (yield Ask({COORDINATOR: message}, aside))[COORDINATOR]
        if isinstance(reply, _PUT_OFF):
            return (yield from self._insist(message, reply))
        return reply

    def _insist(self, message: Message, reply: Message | Lost) -> Act[Message]:
        waited_s, pause_s, began_s = 0.0, FIRST_PAUSE_S, self.now_s
        while isinstance(reply, Lost) or (isinstance(reply, Waiting) and reply.is_held):
            # It is there, and may wait for as long as its disk lets it.
            if isinstance(reply, Waiting):
                waited_s, pause_s, began_s = 0.0, FIRST_PAUSE_S, self.now_s
                yield Pause(FIRST_PAUSE_S, reply.wait)
            else:
                # A reply may be long in coming.
                waited_s = max(waited_s, self.now_s - began_s)
                if waited_s > self.patience_s:
                    raise JobFailed(f"no coordinator for {waited_s:.0f} s: {reply.reason}")
                reason = f"the coordinator is away: {reply.reason}"
                yield Pause(pause_s, Wait("coordinator", reason, (COORDINATOR,)))
                waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, LONGEST_PAUSE_S)
            reply = (yield Ask({COORDINATOR: message}))[COORDINATOR]
        return reply

    def ask_servers(self, messages: dict[str, Message]) -> Act[dict[str, Message]]:
        """Ask servers until all have answered; the coordinator says if that can be."""
        if not messages:
            return {}
        return (yield from self._insist_on_all(messages, (yield Ask(messages))))

    def try_server(
        self, server: str, message: Message, since_s: float
    ) -> Act[Message | Wait]:
        """Ask a server once: its answer, or what is waited for, ``since_s`` by `now_s`.

        The coordinator is asked whether there is still a job to wait for.
        """
        reply = (yield Ask({server: message}))[server]
        if (wait := what_keeps(server, reply)) is not None:
            yield from self.check_timeline(wait.lasting(self.now_s - since_s))
            return wait
        if isinstance(reply, Refusal):
            self._raise_for(reply)
        assert not isinstance(reply, Lost), "it keeps its asker waiting"
        return reply

    def post(self, messages: dict[str, Message]) -> Post:
        """Ask what `collect` waits for; it is sent with what the act wants next."""
        self._num_posted += 1
        self.posted.append(post := Post(self._num_posted, messages))
        return post

    def take_posted(self) -> Sequence[Post]:
        """What whoever drives the act sends before he does what it wants."""
        posted, self.posted = self.posted, []
        return posted

    def collect(self, posted: Post) -> Act[Collected]:
        """Wait until all have answered what was posted, asking again as `ask_servers`."""
        came = yield Collect(posted)
        is_first = _are_answers(came)
        if is_first and len(came) == len(posted.calls):
            return Collected(came, is_first)  # type: ignore[arg-type]  # no reply is lost
        waiting = {role for role, reply in came.items() if isinstance(reply, Waiting)}
        if waiting and all(is_answer(came[role]) for role in came.keys() - waiting):
            # They have let it wait for as long as they do; there is nothing to look into.
            again = yield Ask({role: posted.calls[role] for role in waiting})
            came = {**came, **again}
        return Collected((yield from self._insist_on_all(posted.calls, came)), is_first)

    def collect_told(self, posted: Post) -> Act[Message]:
        """Wait for the coordinator's answer to what was posted, asking again as `ask`."""
        reply = (yield Collect(posted))[COORDINATOR]
        message = posted.calls[COORDINATOR]
        if isinstance(reply, _PUT_OFF):
            reply = yield from self._insist(message, reply)
        self._heard(reply, ())
        return (yield from self.ask(message)) if isinstance(reply, Waiting) else reply

    def _insist_on_all(
        self, messages: dict[str, Message], came: Replies
    ) -> Act[dict[str, Message]]:
        if len(came) == len(messages) and _are_answers(came):
            return came  # type: ignore[return-value]  # no reply is lost
        try:
            return (yield from self._ask_again(messages, came))
        finally:
            self.unreached = ()

    def _ask_again(
        self, messages: dict[str, Message], came: Replies
    ) -> Act[dict[str, Message]]:
        replies: dict[str, Message] = {}
        pause_s, since_s = FIRST_PAUSE_S, self.now_s
        while True:
            waits: list[Wait] = []
            self.unreached = _unreached(came)
            for server, reply in came.items():
                if (wait := what_keeps(server, reply)) is not None:
                    waits.append(wait)
                elif isinstance(reply, Refusal):
                    self._raise_for(reply)
                else:
                    replies[server] = reply  # type: ignore[assignment]  # no `Lost`
            if len(replies) == len(messages):
                return replies
            wait = first_of(waits)
            yield from self.check_timeline(wait.lasting(self.now_s - since_s))
            yield Pause(pause_s, wait)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            came = yield Ask({s: m for s, m in messages.items() if s not in replies})

    def read(
        self, messages: dict[str, Message], abandon: Callable[[str], Act[None]]
    ) -> Act[dict[str, Message]]:
        """Ask servers for values in the middle of a step, on whatever timeline they are.

        What is read on a new timeline serves only a step that will be dropped: ``abandon``
        is told why, and the next batch joins again.
        """
        replies: dict[str, Message] = {}
        while True:
            asked = {
                server: self.current(message)
                for server, message in messages.items()
                if server not in replies
            }
            try:
                found = yield from self.ask_servers(asked)
            except Abandoned as gone:
                yield from abandon(str(gone))
                yield from self.follow_timeline()
                replies = {}
                continue
            return {**replies, **found}

    def check_timeline(self, wait: Wait) -> Act[None]:
        """Servers do not answer: is there still a job to wait for, on this timeline?"""
        reply = yield from self.ask_once(self.beat(wait), aside=True)
        assert isinstance(reply, Beaten)
        self.stopped = self.stopped or reply.stopped
        self.servers.update(reply.servers)
        if reply.timeline != self.timeline:
            raise Abandoned(f"timeline {self.timeline} was left; now is {reply.timeline}")

    def follow_timeline(self) -> Act[None]:
        """Speak on the coordinator's timeline, whatever was open on the old one."""
        returning = Wait("servers", "servers return to a cut")
        reply = yield from self.insist(self.beat(returning))
        assert isinstance(reply, Beaten | Refusal)
        self.timeline = reply.timeline
        if isinstance(reply, Beaten):
            self.servers.update(reply.servers)
        yield Pause(FIRST_PAUSE_S, returning)

    def _raise_for(self, refusal: Refusal) -> None:
        if refusal.kind in {"timeline", "fenced"}:
            raise Abandoned(refusal.text)
        if refusal.kind in {"gap", "stale"}:
            self.incarnation = 0  # as a new member: what this one left is settled first
            raise Abandoned(refusal.text)
        if refusal.kind == "mismatch":
            raise UsageError(refusal.text)
        if refusal.kind == "broken":
            raise JobFailed(refusal.text)
        raise Refused(refusal.kind, refusal.text)

    def reached(self, role: str) -> None:
        """There is a connection to a role, whatever it will answer."""
        if role in self.unreached:
            self.unreached = tuple(one for one in self.unreached if one != role)

    def current(self, message: Message) -> Message:
        """The same message from who the trainer is now."""
        return msgspec.structs.replace(message, **self.who())

    def beat(self, wait: Wait | None = None) -> Beat:
        """A sign of life while something is waited for."""
        return Beat(
            **self.who(),
            clock=self.clock,
            wait=wait,
            bounded_clock=self.bounded_clock,
            unreached=self.unreached,
            pid=self.pid,
            host=self.host,
        )

    def take_spent(self) -> SpentTime | None:
        """What time went into, if that is to be told with this message."""
        spent, self.spent = self.spent, None
        return spent

    def who(self) -> WhoAsks:
        """The identity that a message carries."""
        return WhoAsks(incarnation=self.incarnation, timeline=self.timeline)


_PUT_OFF = (Lost, Waiting)  # of the second, `Asking._insist` looks at which
_NO_ANSWERS = (Lost, Waiting, Refusal)
_WITH_PAUSES = (Waiting, Ticked, Beaten)


def what_keeps(role: str, reply: Message | Lost) -> Wait | None:
    """What it is that a role lets its asker wait for; None if it does not."""
    if isinstance(reply, Waiting):
        wait = reply.wait
        return Wait(wait.kind, f"{role}: {wait.reason}", wait.whom or (role,), wait.more)
    kind: WaitKind = "servers" if role_kind(role) == "server" else "exchange"
    if isinstance(reply, Lost):
        return Wait(kind, f"{role}: {reply.reason}", (role,))
    if isinstance(reply, Refusal) and reply.kind == "not_ready":
        return Wait(kind, reply.text, (role,))
    return None


def _unreached(replies: Replies) -> tuple[str, ...]:
    return tuple(
        role
        for role, reply in sorted(replies.items())
        if isinstance(reply, Lost) and reply.is_unreached and role_kind(role) == "server"
    )


def is_answer(reply: Message | Lost) -> bool:
    """Whether it is what was asked for: neither lost, nor put off, nor refused."""
    return not isinstance(reply, _NO_ANSWERS)


def _are_answers(replies: Replies) -> bool:
    for reply in replies.values():  # noqa: SIM110  (several times a step)
        if isinstance(reply, _NO_ANSWERS):
            return False
    return True
