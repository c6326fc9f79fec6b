"""How far a trainer may be ahead of the slowest, and which values still serve.

A bounded part is one whose pace bounds clocks (`paceline.pace.policy.staleness_of`). The
trainer has one clock for all of them: the steps that it has finished in each. Before it
begins a step it waits until the slowest is near enough for every bounded part; values of a
part that were asked for when the slowest was too far behind are fetched again, and so are
those that lack a push of its own.

Where a part is updated in rounds, nobody waits here: rounds keep all within a step.

Pure.
"""

from typing import Literal, final

from paceline.messages.shared import Lease, TrainerClock, Waiting
from paceline.messages.trainer import GoOn, MayGoOn
from paceline.pace.policy import is_within
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.pushing import pull_part


@final
class StalenessGate:
    """The clock of one trainer, and what it knows of the slowest."""

    def __init__(self, asking: Asking, parts: dict[int, SharedPart]) -> None:
        self._asking, self._parts = asking, parts
        self._base = 0  # the clock at which no step of a part was finished
        self._slowest = 0
        self.entered: Lease | None = None  # the lease that it has entered with last

    @property
    def clock(self) -> int | None:
        """Steps finished in every bounded part; None if there is none."""
        bounded = self._bounded()
        return self._clock_in(bounded) if bounded else None

    def is_on(self) -> bool:
        """Whether clocks are bounded: a part is, and none is updated in rounds."""
        return bool(self._bounded())

    def enter(self, lease: Lease) -> None:
        """A lease has come, and none was held."""
        clock, self.entered = self.clock, lease
        if clock is not None:
            self._base += lease.clock - clock
            self._slowest = lease.slowest
            self.ticks()

    def forget(self) -> None:
        """The timeline or the incarnation is gone: a beat tells no clock of it."""
        self._asking.bounded_clock = None

    def ticks(self) -> TrainerClock | None:
        """The clock to tell, if there is one; it is what beats say from now on."""
        steps, lease = self.clock, self.entered
        told = None if steps is None or lease is None else TrainerClock(lease.entry, steps)
        self._asking.bounded_clock = told
        return told

    def heard(self, slowest: int | None) -> None:
        """The slowest is at this clock by now."""
        if slowest is not None:
            self._slowest = max(self._slowest, slowest)

    def next_turn(
        self, servers: tuple[str, ...], *, is_open: bool
    ) -> Act[Literal["go", "flush", "wait"]]:
        """What to do before the next batch; with ``go``, values serve it.

        ``is_open``: a window is, and must be pushed before anything is waited for.
        """
        bounded = self._bounded()
        if not bounded:
            return "go"
        clock = self._clock_in(bounded)
        for part in bounded:
            if not is_within(part.staleness(clock), clock, self._slowest):
                if is_open:
                    return "flush"
                if not (yield from self._wait()):
                    return "wait"
                break
        for part in bounded:
            serves = is_within(part.staleness(clock), clock, part.seen)
            if not serves or part.pull_due(has_pushed=False):
                self.reads(part)
                yield from pull_part(self._asking, part, servers, 0)
        return "go"

    def _wait(self) -> Act[bool]:
        clock = self.ticks()
        assert clock is not None
        staleness = min(part.staleness(clock.steps) for part in self._bounded())
        ask = MayGoOn(**self._asking.who(), clock=clock, staleness=staleness)
        reply = yield from self._asking.ask_once(ask)
        if isinstance(reply, Waiting):
            return False
        assert isinstance(reply, GoOn)
        self.heard(reply.slowest)
        return True

    def may_read(self, part: SharedPart) -> bool:
        """Whether what is read behind a push that goes out now serves the next step."""
        bounded = self._bounded()
        if part not in bounded:
            return True
        then = self._clock_in(bounded) + part.stepped - part.finished
        return is_within(part.staleness(then), then, self._slowest)

    def reads(self, part: SharedPart) -> None:
        """Values of a part are asked for now."""
        part.seen = self._slowest

    def _clock_in(self, bounded: list[SharedPart]) -> int:
        if len(bounded) == 1:
            return self._base + bounded[0].finished
        return self._base + min([part.finished for part in bounded])

    def _bounded(self) -> list[SharedPart]:
        bounded = []
        for part in self._parts.values():  # a loop: it is asked several times a step
            if part.rules.is_sync:
                return []
            if part.rules.is_bounded:
                bounded.append(part)
        return bounded
