"""A trainer's acts in an evaluation, driven by hand: what is asked, and what then."""

from collections.abc import Callable
from typing import Any

import pytest

from paceline.config import Sync
from paceline.errors import UsageError
from paceline.ids import COORDINATOR, TaskKey
from paceline.messages.results import AskResults, FinishTask, KeepValue, Results
from paceline.messages.shared import Done, Lease, Message, Refusal, StageSpec
from paceline.messages.trainer import (
    AskLease,
    BeginStage,
    Granted,
    HandBack,
    Joined,
    JoinTrainer,
    StageOver,
)
from paceline.trainer.acts import Act, Ask, ForgetPosted
from paceline.trainer.protocol.protocol import TrainerProtocol
from paceline.trainer.verdicts import Leaving, Over, Task

STAGE = StageSpec(3, 40, 2, 10, 1, False, 0, "data", kind="evaluate")


class Coordinator:
    """Answers each kind of question as it is told to, and remembers all of them."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.timeline = 0
        self.incarnation = 1
        self.on: dict[type[Message], Callable[[Any], Message]] = {
            AskLease: lambda _: StageOver(),
            FinishTask: lambda _: Done(),
            HandBack: lambda _: Done(),
            BeginStage: lambda _: Done(),
        }

    def run(self, act: Act[Any]) -> Any:
        try:
            wanted = next(act)
            while True:
                if isinstance(wanted, ForgetPosted):
                    wanted = act.send({})
                    continue
                assert isinstance(wanted, Ask), wanted
                message = wanted.calls[COORDINATOR]
                self.asked.append(message)
                wanted = act.send({COORDINATOR: self._answer(message)})
        except StopIteration as done:
            return done.value

    def _answer(self, message: Any) -> Message:
        if isinstance(message, JoinTrainer):
            return Joined(
                incarnation=self.incarnation,
                timeline=self.timeline,
                generation=1,
                pace=Sync(),
                seed=0,
                servers={"server-0": "somewhere"},
                beat_s=1.0,
            )
        if message.timeline != self.timeline or message.incarnation != self.incarnation:
            kind = "timeline" if message.timeline != self.timeline else "fenced"
            return Refusal(kind=kind, text="gone", timeline=self.timeline)  # type: ignore[arg-type]
        return self.on[type(message)](message)

    def of(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.asked if isinstance(message, kind)]


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def protocol(coordinator: Coordinator) -> TrainerProtocol:
    protocol = TrainerProtocol("trainer-0", 1, "here", patience_s=1.0)
    coordinator.run(protocol.begin_stage(STAGE))
    return protocol


def grant(coordinator: Coordinator, protocol: TrainerProtocol, token: int = 7) -> Task:
    lease = Lease(token, TaskKey(3, 0, 1), 0)
    coordinator.on[AskLease] = lambda _: Granted(lease=lease)
    task = coordinator.run(protocol.evaluation.next_task(STAGE))
    assert isinstance(task, Task)
    return task


def test_a_finished_task_goes_with_its_token_and_result(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    task = grant(coordinator, protocol)
    assert (task.key.task, task.token, task.timeline) == (1, 7, 0)
    coordinator.run(protocol.evaluation.finish(b"result"))
    [finish] = coordinator.of(FinishTask)
    assert (finish.token, finish.result) == (7, b"result")


def test_a_stale_result_is_dropped_and_the_next_task_asked_for(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    grant(coordinator, protocol)
    coordinator.on[FinishTask] = lambda _: Refusal(kind="stale", text="", timeline=0)
    coordinator.run(protocol.evaluation.finish(b"result"))
    assert protocol.asking.incarnation == 1, "it is a member as before"
    assert grant(coordinator, protocol, token=8).token == 8


def test_a_result_that_is_too_large_is_the_users_to_mend(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    grant(coordinator, protocol)
    text = "take thresholds="
    coordinator.on[FinishTask] = lambda _: Refusal(kind="invalid", text=text, timeline=0)
    with pytest.raises(UsageError, match=text):
        coordinator.run(protocol.evaluation.finish(b"result"))


def test_a_result_of_a_lost_membership_is_offered_and_refused_not_counted(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    grant(coordinator, protocol)
    coordinator.incarnation = 2
    coordinator.on[FinishTask] = lambda _: Refusal(kind="stale", text="", timeline=0)
    coordinator.run(protocol.evaluation.finish(b"result"))
    assert protocol.asking.incarnation == 2
    assert [type(m) for m in coordinator.asked][-3:] == [
        JoinTrainer,
        BeginStage,
        FinishTask,
    ]


def test_a_task_is_void_once_its_timeline_is_gone(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    grant(coordinator, protocol)
    assert not protocol.evaluation.is_void
    coordinator.run(_abandon(protocol))
    assert protocol.evaluation.is_void
    coordinator.run(protocol.evaluation.hand_back())
    assert not coordinator.of(HandBack), "there is nothing left to hand back"


def _abandon(protocol: TrainerProtocol) -> Act[None]:
    yield from protocol._abandon("a server is lost")


def test_who_is_told_to_leave_hands_its_task_back(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    grant(coordinator, protocol)
    protocol.leaving = "SIGTERM"
    found = coordinator.run(protocol.evaluation.next_task(STAGE))
    assert found == Leaving("SIGTERM")
    coordinator.run(protocol.evaluation.hand_back())
    [back] = coordinator.of(HandBack)
    assert (back.tokens, back.acked) == ((7,), (-1,))


def test_a_stage_that_is_over_says_so(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    assert coordinator.run(protocol.evaluation.next_task(STAGE)) == Over(None)


def test_pages_of_results_are_put_together(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    pages = {
        0: Results(states={0: b"a", 1: b"b"}, following=2),
        2: Results(states={2: b"c"}, missing=1),
    }
    coordinator.on[AskResults] = lambda ask: pages[ask.first]
    found = coordinator.run(protocol.evaluation.results(3))
    assert found == Results(states={0: b"a", 1: b"b", 2: b"c"}, missing=1)


def test_the_value_that_is_kept_is_the_value(
    coordinator: Coordinator, protocol: TrainerProtocol
) -> None:
    coordinator.on[KeepValue] = lambda _: Results(value=b"first")
    assert coordinator.run(protocol.evaluation.keep(3, b"second")).value == b"first"
