"""What tracked objects are loaded as, and when they are loaded again."""

from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from paceline.messages.data import AskTracked
from paceline.messages.trainer import StageOver
from paceline.trainer.acts import Act, Asking
from paceline.trainer.protocol.tracking import Tracking


def asked_by(act: Act[None]) -> list[int]:
    """Numbers of the states that an act asks for; each is answered at once."""
    return [asked.number for asked in cast("Generator[Any, None, None]", act)]


def ask_servers(questions: Mapping[str, AskTracked]) -> Generator[AskTracked, None, None]:
    yield from questions.values()


ASKING = cast(
    "Asking",
    SimpleNamespace(who=lambda: {"incarnation": 1, "timeline": 0}, ask_servers=ask_servers),
)


def test_a_state_is_loaded_once() -> None:
    tracking = Tracking({})
    assert asked_by(tracking.load(ASKING, "server-0", 7)) == [7]
    assert asked_by(tracking.load(ASKING, "server-0", 7)) == []
    assert asked_by(tracking.load(ASKING, "server-0", None)) == []


def test_what_a_stage_ended_with_stays_as_the_script_moves_it_behind_the_loop() -> None:
    tracking = Tracking({})
    assert asked_by(
        tracking.end_stage(ASKING, "server-0", StageOver(state=7, passed=7))
    ) == [7]
    assert asked_by(tracking.load(ASKING, "server-0", 7)) == []


def test_the_state_of_now_comes_with_each_stage_that_was_over_and_again_with_work() -> None:
    tracking = Tracking({})
    for _ in range(2):
        over = StageOver(passed=7, tracked=7)
        assert asked_by(tracking.end_stage(ASKING, "server-0", over)) == [7]
    assert asked_by(tracking.load(ASKING, "server-0", 7)) == [7]
    assert asked_by(tracking.load(ASKING, "server-0", 7)) == []
