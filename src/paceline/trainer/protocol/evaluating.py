"""A trainer's way through a stage that does not train: leases in, results out.

No window, push or tick: nothing changes on any server from the cut that began the stage to
the one that ends it. A task is counted as a whole, by the token of its lease.

Pure.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar, final

from paceline.errors import UsageError
from paceline.messages.results import AskResults, FinishTask, KeepValue, Results
from paceline.messages.shared import Lease, Message, Refusal, StageSpec
from paceline.messages.trainer import AskLease, FailTask, Granted, HandBack, StageOver
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.joining import UndoPoint
from paceline.trainer.protocol.pushing import pull_part
from paceline.trainer.protocol.tracking import Tracking
from paceline.trainer.verdicts import Leaving, Over, Task

T = TypeVar("T")


class EvaluationMember(Protocol):
    """What an evaluation needs of the trainer that does it."""

    leaving: str | None
    must_begin_again: str | None
    behind: UndoPoint
    servers: dict[str, str]
    parts: dict[int, SharedPart]

    @property
    def must_join(self) -> bool:
        """Whether what it was part of is gone."""

    def as_member(self, act: Callable[[], Act[T]]) -> Act[T]:
        """Do an act as a member, anew if need be."""


@final
class Evaluation:
    """The acts of one trainer in stages of evaluation and prediction."""

    def __init__(self, member: EvaluationMember, asking: Asking, tracked: Tracking) -> None:
        self.evaluated = 0  # batches so far; a sign of life carries it
        self._member, self._asking, self._tracked = member, asking, tracked
        self._held: Lease | None = None
        self._pulled: object = None  # (stage, incarnation, timeline) of the values here

    @property
    def is_void(self) -> bool:
        """Whether the task that is worked on will not count: its timeline is gone."""
        return self._member.must_join

    def next_task(self, stage: StageSpec) -> Act[Task | Over | Leaving]:
        """The next task of a stage that was begun; waits until there is one, or none."""
        member = self._member
        while True:
            if (why := member.leaving or member.must_begin_again) is not None:
                return Leaving(why)
            found = yield from member.as_member(lambda: self._ask_task(stage))
            if found is not None:
                return found

    def _ask_task(self, stage: StageSpec) -> Act[Task | Over | None]:
        if self._member.must_begin_again is not None:  # as it has learned by joining
            return None
        ask = AskLease(**self._asking.who(), stage=stage.stage)
        reply = yield from self._asking.ask_once(ask)
        if isinstance(reply, StageOver):
            self._member.behind.went_on_from(reply.cut)
            return Over(reply.stopped)
        if not isinstance(reply, Granted):
            return None
        lease = reply.lease
        here = (stage.stage, self._asking.incarnation, self._asking.timeline)
        servers = tuple(self._member.servers)
        if self._pulled != here:
            for part in self._member.parts.values():
                yield from pull_part(self._asking, part, servers, 0)
            self._pulled = here
        yield from self._tracked.enter(self._asking, min(servers), lease, trains=False)
        self._held = lease
        self._member.behind.last = lease.key, 0
        return Task(lease.key, self._asking.timeline, lease.token)

    def finish(self, result: bytes) -> Act[None]:
        """Let the task that is held count, with its result, unless its lease is gone.

        Raises:
            UsageError: the result, or the stage's together, are too large.
        """
        lease, self._held = self._held, None
        assert lease is not None
        token = lease.token

        def finish() -> Act[Message]:
            message = FinishTask(**self._asking.who(), token=token, result=result)
            return self._asking.ask_once(message, "stale", "invalid")

        reply = yield from self._member.as_member(finish)
        if isinstance(reply, Refusal) and reply.kind == "invalid":
            raise UsageError(reply.text)

    def fail(self, error: str) -> Act[None]:
        """The task that is held cannot be worked on: its data cannot be read."""
        lease, self._held = self._held, None
        assert lease is not None
        token, acked = lease.token, lease.first - 1
        who = self._asking.who()
        yield from self._ask(FailTask(**who, token=token, acked=acked, error=error))

    def hand_back(self) -> Act[None]:
        """Give the task that is held back, if there is one: another begins it anew."""
        lease, self._held = self._held, None
        if lease is None or self._member.must_join:
            return
        tokens, acked = (lease.token,), (lease.first - 1,)
        yield from self._ask(HandBack(**self._asking.who(), tokens=tokens, acked=acked))

    def results(self, stage: int) -> Act[Results]:
        """The value of a stage that is over, or all its results."""
        states: dict[int, bytes] = {}
        first = 0
        while True:
            ask = AskResults(**self._asking.who(), stage=stage, first=first)
            page = yield from self._ask(ask)
            assert isinstance(page, Results)
            if page.value is not None:
                return page
            states |= page.states
            if page.following is None:
                return Results(states=states, missing=page.missing)
            first = page.following

    def keep(self, stage: int, value: bytes) -> Act[Results]:
        """Let a stage have a value; the one that it has is returned."""
        keep = KeepValue(**self._asking.who(), stage=stage, value=value)
        reply = yield from self._ask(keep)
        assert isinstance(reply, Results)
        return reply

    def _ask(self, message: Message) -> Act[Message]:
        """Ask the coordinator, as who the trainer is by then."""
        return self._member.as_member(
            lambda: self._asking.ask(self._asking.current(message))
        )
