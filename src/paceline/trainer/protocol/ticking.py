"""What the coordinator is told of acknowledged windows, and when.

In rounds every window is ticked at once: the round waits for it. Otherwise nobody waits
for a tick, and a trainer of quick steps may tell several windows in one: at a task's end,
before it asks for anything, and else every `TICK_EVERY_S`. If it dies before, the servers'
marks say what it had done. Within a task the answer is heard behind the next push: on a
link with a delay it would be a round trip of its own.

Pure.
"""

from collections.abc import Callable
from typing import final

import msgspec

from paceline.ids import COORDINATOR, Span, Window
from paceline.messages.meeting import MeetAgain
from paceline.messages.shared import Message, RefusedPush, TrainerClock
from paceline.messages.trainer import Tick, Ticked
from paceline.trainer.acts import Abandoned, Act, Asking, Post, SendPosted
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.pushing import Acknowledged
from paceline.trainer.protocol.tracking import Tracking

TICK_EVERY_S = 0.05


class _Untold(msgspec.Struct, frozen=True):
    """Windows of one part that the coordinator does not know yet, as one."""

    window: Window
    acked: tuple[int, ...]  # of each span's task, the last batch in every part
    records: int
    refused: tuple[RefusedPush, ...]

    @property
    def is_news(self) -> bool:
        """Whether it says more than what another part has told, or is going to."""
        if self.refused:
            return True
        pairs = zip(self.window.spans, self.acked, strict=True)
        return any(acked == span.last for span, acked in pairs)

    def joined(self, after: "_Untold") -> "_Untold":
        """With another window behind it, of the same epoch."""
        spans = {span.task: span for span in self.window.spans}
        acked = dict(zip(spans, self.acked, strict=True))
        for span, last in zip(after.window.spans, after.acked, strict=True):
            first = spans[span.task].first if span.task in spans else span.first
            spans[span.task] = Span(span.task, first, span.last)
            acked[span.task] = last
        return _Untold(
            self.window._replace(spans=tuple(spans.values())),
            tuple(acked.values()),
            self.records + after.records,
            self.refused + after.refused,
        )


@final
class TickSender:
    """Ticks of one trainer."""

    def __init__(self, asking: Asking, tracked: Tracking) -> None:
        self._asking, self._tracked = asking, tracked
        # {part: windows} that the coordinator does not know yet.
        self.untold: dict[int, _Untold] = {}
        self._told_s: dict[int, float] = {}  # {part: when it was told of last}
        self.unheard: list[Post] = []  # ticks whose answer is yet to be waited for

    def add(self, part: SharedPart, done: Acknowledged, acked: tuple[int, ...]) -> None:
        """All servers have acknowledged a window.

        ``acked``: for each of its spans, the task's last batch acknowledged in every part.
        """
        number = part.spec.part
        refused = () if done.refused is None else (done.refused,)
        untold = _Untold(done.window, acked, done.records, refused)
        before = self.untold.get(number)
        self.untold[number] = untold if before is None else before.joined(untold)
        part.records += done.records

    def is_due(self, part: SharedPart) -> bool:
        """Whether a tick of a part should not wait any longer."""
        told_s = self._told_s.get(part.spec.part)
        return told_s is None or self._asking.now_s >= told_s + TICK_EVERY_S

    def tick(
        self,
        part: SharedPart,
        *,
        is_prepared: bool,
        ends_step: bool,
        wants_lease: bool = False,
        clock: TrainerClock | None = None,
    ) -> Tick:
        """All windows of a part that are to be told, until the answer is collected.

        ``is_prepared`` is of the last of them. ``ends_step``: no other part that is updated
        in rounds awaits its step. ``wants_lease``: a task that ends here is followed by the
        next one. ``clock``: of the trainer, where a pace bounds it.
        """
        untold = self.untold[part.spec.part]
        self._told_s[part.spec.part] = self._asking.now_s
        return Tick(
            incarnation=self._asking.incarnation,
            timeline=self._asking.timeline,
            part=part.spec.part,
            number=part.number,
            window=untold.window,
            records=untold.records,
            acked=untold.acked,
            round=part.round if part.rules.is_sync else None,
            is_prepared=is_prepared,
            ends_step=ends_step,
            next_lease=wants_lease,
            clock=clock,
            refused=untold.refused,
            spent=self._asking.take_spent(),
        )

    def post(self, part: SharedPart, tick: Tick) -> Post:
        """Tell of a part's windows; what comes before `collect` has the answer is news."""
        posted = self._asking.post({COORDINATOR: tick})
        self.untold.pop(part.spec.part, None)
        return posted

    def collect(self, posted: Post) -> Act[Ticked]:
        """Wait until what was told is counted."""
        return self._heard((yield from self._asking.collect_told(posted)))

    def tell(self, part: SharedPart, tick: Tick) -> Act[Ticked]:
        """Tell of a part's windows, until they are counted."""
        ticked = yield from self._asking.ask(tick)
        self.untold.pop(part.spec.part, None)
        return self._heard(ticked)

    def tell_on(self, part: SharedPart, tick: Tick) -> Act[None]:
        """Tell of a part's windows, and go on; `hear` waits until they are counted."""
        self.unheard.append(self.post(part, tick))
        yield SendPosted()

    def hear(self) -> Act[None]:
        """Wait until all that `tell_on` has told is counted."""
        while self.unheard:
            yield from self.collect(self.unheard[0])
            del self.unheard[0]

    def is_heard(self) -> Act[bool]:
        """Whether what was told is counted, though its timeline may be gone by now."""
        if not self.unheard:
            return False
        try:
            yield from self.hear()
        except Abandoned:
            return False
        return True

    def tell_exchanged(
        self, part: SharedPart, tick: Tick, exchange: Callable[[], Act[int]]
    ) -> Act[Ticked]:
        """Tell of a window whose values travel between trainers, until it is counted.

        ``exchange`` lets them travel, and names the exchange; again whenever the
        coordinator says that it was void.
        """
        ticked: Message = MeetAgain(reason="")
        while isinstance(ticked, MeetAgain):
            name = yield from exchange()
            ticked = yield from self._asking.ask(
                msgspec.structs.replace(tick, exchange=name)
            )
        self.untold.pop(part.spec.part, None)
        return self._heard(ticked)

    def _heard(self, ticked: Message) -> Ticked:
        assert isinstance(ticked, Ticked)
        self._asking.stopped = self._asking.stopped or ticked.stopped
        self._asking.records = ticked.records
        if ticked.track:
            self._tracked.note(ticked)
        return ticked

    def tell_all(self, parts: dict[int, SharedPart]) -> Act[None]:
        """Nothing is kept back: something is going to be asked."""
        yield from self.hear()
        for number, untold in list(self.untold.items()):
            if untold.is_news:
                tick = self.tick(parts[number], is_prepared=False, ends_step=True)
                yield from self.tell(parts[number], tick)
        self.untold.clear()  # the rest is told where it is acknowledged in every part

    def forget(self) -> None:
        """The timeline or the incarnation is gone."""
        self.untold.clear()
        self.unheard.clear()
