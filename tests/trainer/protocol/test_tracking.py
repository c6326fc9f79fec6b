"""Which state tracked objects are brought to, and what the script has made of it counts."""

from typing import Any

import pytest

from paceline.ids import TaskKey
from paceline.messages.data import AskTracked, Tracked
from paceline.messages.shared import Lease, Message, StageSpec
from paceline.messages.trainer import StageOver
from paceline.trainer.acts import Act, Ask, Asking
from paceline.trainer.protocol.tracking import Tracking

TRAINS = StageSpec(0, 16, 2, 8, 1, shuffle=False, seed=0, fingerprint="")
ENDED = 77  # number of the state that a loop has ended with


class Script:
    """One trainer that goes through loops, and what it asks servers for."""

    def __init__(self) -> None:
        self.tracking, self.asking = Tracking({}), Asking(1.0)
        self.asked: list[int] = []

    def do(self, act: Act[Any]) -> None:
        replies: dict[str, Message] = {}
        try:
            wanted = next(act)
            while True:
                assert isinstance(wanted, Ask)
                for role, message in wanted.calls.items():
                    assert isinstance(message, AskTracked)
                    self.asked.append(message.number)
                    replies = {role: Tracked()}
                wanted = act.send(replies)  # type: ignore[arg-type]  # no reply is lost
        except StopIteration:
            return

    def loop(self, over: StageOver | None) -> None:
        """Through a loop that ends for all, or is left."""
        self.tracking.begin(TRAINS)
        if over is None:
            self.tracking.leave()
        else:
            self.do(self.tracking.end(self.asking, "server-0", over))

    def enter(self, tracked: int | None, *, trains: bool = True) -> None:
        """With a first lease; ``tracked`` is what the last loop has ended with."""
        lease = Lease(1, TaskKey(1, 0, 0), 0, tracked=tracked, is_end=tracked == ENDED)
        act = self.tracking.enter(self.asking, "server-0", lease, trains=trains)
        self.do(act)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.mark.parametrize("over", [StageOver(state=ENDED, has_state=True), None], ids=str)
def test_who_returns_to_the_end_of_the_last_loop_is_as_when_this_one_began(
    script: Script, over: StageOver | None
) -> None:
    script.loop(over)
    script.tracking.begin(TRAINS)
    script.tracking.forget()
    script.enter(ENDED)
    assert script.asked == []
    assert (script.tracking.is_first, script.tracking.loads) == (True, 1)


def test_who_returns_to_the_midst_of_a_loop_loads_what_was_kept_there(
    script: Script,
) -> None:
    script.loop(StageOver(state=ENDED, has_state=True))
    script.tracking.begin(TRAINS)
    script.tracking.forget()
    script.enter(78)
    assert script.asked == [78]
    assert not script.tracking.is_first


def test_who_was_not_in_the_last_rounds_loads_their_end_and_then_nothing(
    script: Script,
) -> None:
    script.loop(StageOver(state=ENDED))
    assert script.asked == [ENDED]
    script.tracking.begin(TRAINS)
    script.enter(ENDED)
    assert (script.asked, script.tracking.loads) == ([ENDED], 1)


def test_who_comes_to_a_loop_without_its_beginning_loads_what_is_told(
    script: Script,
) -> None:
    script.loop(StageOver())
    script.tracking.begin(TRAINS)
    script.enter(ENDED)
    assert script.asked == [ENDED]


@pytest.mark.parametrize("over", [StageOver(state=ENDED, has_state=True), None], ids=str)
def test_an_evaluation_does_not_undo_what_stands_before_it(
    script: Script, over: StageOver | None
) -> None:
    script.loop(over)
    script.enter(ENDED, trains=False)
    assert (script.asked, script.tracking.loads) == ([], 0)
