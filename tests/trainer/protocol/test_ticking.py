"""What the coordinator is told of windows, and when."""

import pytest

from paceline.config import Async
from paceline.ids import COORDINATOR, Span, Window
from paceline.messages.shared import PartSpec
from paceline.messages.trainer import Tick, Ticked
from paceline.trainer.acts import Ask, Asking, Collect, Lost, Pause, SendPosted
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.protocol.pushing import Acknowledged
from paceline.trainer.protocol.ticking import TICK_EVERY_S, TickSender
from paceline.trainer.protocol.tracking import Tracking

PART = PartSpec(part=0, parameters=(), optimizer=None, tables=(), pace=Async())


@pytest.fixture
def asking() -> Asking:
    return Asking(patience_s=1.0)


@pytest.fixture
def teller(asking: Asking) -> TickSender:
    return TickSender(asking, Tracking({}))


def acknowledge(teller: TickSender, part: SharedPart, batch: int) -> None:
    window = Window(0, 0, (Span(0, batch, batch),))
    teller.add(part, Acknowledged(window, 1, is_prepared=False, is_first=True), (batch,))


def told_of(wanted: object) -> Window:
    """The window that an act tells the coordinator of."""
    assert isinstance(wanted, Ask)
    tick = wanted.calls[COORDINATOR]
    assert isinstance(tick, Tick)
    return tick.window


def test_what_nobody_has_answered_is_told_again(teller: TickSender) -> None:
    """Else a loop that is interrupted while it waits would lose a task's last tick."""
    part = SharedPart(PART)
    acknowledge(teller, part, 0)
    interrupted = teller.tick(part, is_prepared=False, ends_step=True)
    act = teller.tell_all({0: part})
    assert told_of(next(act)) == interrupted.window


def test_what_was_answered_is_not_told_again(teller: TickSender) -> None:
    part = SharedPart(PART)
    acknowledge(teller, part, 0)
    act = teller.tell_all({0: part})
    assert told_of(next(act)) == Window(0, 0, (Span(0, 0, 0),))
    with pytest.raises(StopIteration):
        act.send({COORDINATOR: Ticked()})
    assert not list(teller.tell_all({0: part}))


def tell_on(teller: TickSender, part: SharedPart) -> Tick:
    """Tell of what is known, and go on; the tick."""
    tick = teller.tick(part, is_prepared=False, ends_step=True)
    assert [type(wanted) for wanted in teller.tell_on(part, tick)] == [SendPosted]
    return tick


def test_who_tells_and_goes_on_has_news_before_the_answer_is_heard(
    asking: Asking, teller: TickSender
) -> None:
    part = SharedPart(PART)
    acknowledge(teller, part, 0)
    tell_on(teller, part)
    acknowledge(teller, part, 1)
    act = teller.tell_all({0: part})
    assert isinstance(next(act), Collect)
    assert told_of(act.send({COORDINATOR: Ticked(records=7)})) == Window(
        0, 0, (Span(0, 1, 1),)
    )
    assert asking.records == 7


def test_who_went_on_and_hears_nothing_tells_again(teller: TickSender) -> None:
    part = SharedPart(PART)
    acknowledge(teller, part, 0)
    tick = tell_on(teller, part)
    act = teller.hear()
    assert isinstance(next(act), Collect)
    assert isinstance(act.send({COORDINATOR: Lost("it was restarted")}), Pause)
    assert act.send({}) == Ask({COORDINATOR: tick})


def test_windows_that_wait_are_told_as_one(teller: TickSender) -> None:
    part = SharedPart(PART)
    acknowledge(teller, part, 0)
    acknowledge(teller, part, 1)
    assert told_of(next(teller.tell_all({0: part}))) == Window(0, 0, (Span(0, 0, 1),))


def test_the_next_tick_is_due_some_time_after_the_last_was_sent(
    asking: Asking, teller: TickSender
) -> None:
    part = SharedPart(PART)
    assert teller.is_due(part)
    acknowledge(teller, part, 0)
    asking.now_s = 5.0
    teller.tick(part, is_prepared=False, ends_step=True)
    assert not teller.is_due(part)
    asking.now_s = 5.0 + TICK_EVERY_S
    assert teller.is_due(part)
