"""A loop whose script never steps: what becomes of it."""

import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.ids import TaskKey
from paceline.messages.shared import StageSpec
from paceline.messages.trainer import HandBack, Tick
from paceline.trainer.engine.unstepped import Steps
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob

DATA = torch.arange(12.0).reshape(12, 1)


def steps_of(*tasks: int, epochs: int = 1, epoch: int = 0, batches: int = 3) -> Steps:
    """As delivered: of each of four tasks all batches."""
    spec = StageSpec(0, 16 * batches, 4, 4 * batches, epochs, False, 0, "")
    steps = Steps(spec)
    for task in tasks:
        for _ in range(batches):
            steps.deliver(TaskKey(0, epoch, task))
    return steps


def test_a_loop_that_has_stepped_or_had_nothing_is_fine() -> None:
    assert Steps().judge(is_over=True).verdict == "fine"
    assert steps_of().judge(is_over=True).verdict == "fine"
    stepped = steps_of(0, 1)
    stepped.parts.add(0)
    assert stepped.judge(is_over=True).verdict == "fine"


@pytest.mark.parametrize("is_over", [False, True])
def test_many_batches_of_two_tasks_without_a_step_are_refused(is_over: bool) -> None:
    judged = steps_of(0, 2, batches=33).judge(is_over=is_over)
    assert judged.verdict == "refuse"
    assert "delivered 66 batches" in judged.reason


@pytest.mark.parametrize("is_over", [False, True])
def test_a_few_batches_of_several_tasks_may_be_accumulated(is_over: bool) -> None:
    assert steps_of(0, 1, 2).judge(is_over=is_over).verdict == "warn"
    assert steps_of(0, 2, batches=32).judge(is_over=is_over).verdict == "warn"


@pytest.mark.parametrize("is_over", [False, True])
def test_many_batches_of_one_task_may_be_accumulated(is_over: bool) -> None:
    assert steps_of(1, batches=65).judge(is_over=is_over).verdict != "refuse"


def test_all_batches_of_all_epochs_without_a_step_are_refused() -> None:
    steps = Steps(StageSpec(0, 8, 4, 4, 2, False, 0, ""))
    for epoch in (0, 1):
        for task in (0, 1):
            assert steps.judge(is_over=False).verdict != "refuse"
            steps.deliver(TaskKey(0, epoch, task))
    assert steps.judge(is_over=False).verdict == "refuse"


def test_all_there_is_without_a_step_is_refused() -> None:
    steps = Steps(StageSpec(0, 12, 4, 12, 1, False, 0, ""))
    for number in range(3):
        assert steps.judge(is_over=False).verdict == "fine"
        steps.deliver(TaskKey(0, 0, 0))
        assert steps.batches == number + 1
    assert steps.judge(is_over=False).verdict == "refuse"


def test_one_task_of_several_is_warned_of_at_the_end() -> None:
    assert steps_of(1).judge(is_over=False).verdict == "fine"
    assert steps_of(1).judge(is_over=True).verdict == "warn"


def test_before_the_last_epoch_a_warning_is_enough() -> None:
    first = steps_of(0, 1, epochs=2, batches=33)
    assert first.judge(is_over=False).verdict == "warn"
    last = steps_of(0, 1, epochs=2, epoch=1, batches=33)
    assert last.judge(is_over=False).verdict == "refuse"


def test_a_part_that_is_left_out_while_others_step_is_named() -> None:
    steps = steps_of(0)
    assert steps.forgets(1, "weight") is None
    steps.parts.update([0, 2])
    assert steps.forgets(2, "weight") is None
    assert "'weight' has gradients" in (steps.forgets(1, "weight") or "")


def told_of_steps(taken: list[int]) -> list[bool]:
    """Whether something is said of steps after so many batches."""
    steps, told = Steps(), []
    for count in taken:
        while steps.batches < count:
            steps.deliver(TaskKey(0, 0, 0))
        told.append(steps.why_ahead() is not None)
    return told


@pytest.mark.parametrize("taken", [[2, 3, 4], [3, 4, 5]])
def test_what_may_be_a_prefetcher_is_told_so_at_its_second_step(taken: list[int]) -> None:
    assert told_of_steps(taken) == [False, True, False]


@pytest.mark.parametrize(
    "taken", [[1, 2, 3, 4], [2, 4, 6], [1, 3, 4], [4, 8, 9], [2, 2, 4]]
)
def test_other_ways_to_step_say_nothing_of_a_prefetcher(taken: list[int]) -> None:
    assert not any(told_of_steps(taken))


def share(session: Session) -> nn.Module:
    model = nn.Linear(1, 1, bias=False)
    session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return model


def test_nothing_counts_of_a_loop_that_never_steps(session: Session, job: FakeJob) -> None:
    model = share(session)
    before = model.weight.detach().clone()

    def loop() -> None:
        for batch in session.batches(DATA, 2, task_size=6):
            model(batch).sum().backward()

    with pytest.raises(UsageError, match="delivered 6 batches: nothing was trained; call"):
        loop()
    assert job.of(Tick) == []
    assert job.of(HandBack)
    assert torch.equal(model.weight, before)


def test_a_loop_that_is_left_or_stopped_is_no_such_loop(
    session: Session, job: FakeJob
) -> None:
    share(session)
    for _ in session.batches(DATA, 2, task_size=6):
        break
    for number, _ in enumerate(session.batches(DATA, 2, task_size=6)):
        if number == 4:
            session.stop("seen enough")
    assert job.stopped == "seen enough"
