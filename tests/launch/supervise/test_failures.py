"""A script that would end so again ends its job; one that may not is tried again."""

import msgspec
import pytest

from paceline.launch.supervise.failure import Failure, Failures
from paceline.launch.supervise.run_events import GiveUp, ScriptFailed, Start
from paceline.messages.watching import Exited
from tests.launch.supervised import Job, roles

BUG = Failure("builtins.ValueError", "ValueError: x", "train.py:60", 60, "task 3", 5, True)


def at(task: str | None, batches: int = 60, **more: object) -> Failure:
    return msgspec.structs.replace(BUG, task=task, batches=batches, **more)


def told(*failures: Failure | None) -> list[str | None]:
    """The answers to failures of one incarnation after the other."""
    found = Failures()
    return [
        found.note(f"trainer-{n % 2}", failure, "exit code 1", since_s=n, now=n + 0.5)
        for n, failure in enumerate(failures)
    ]


def test_a_bug_at_the_same_step_on_other_data_ends_the_job() -> None:
    first, second = told(at("task 3"), at("task 9"))
    assert first is None
    assert second == (
        "trainer-1 ended with other data as trainer-0 had before: ValueError: x, at "
        "train.py:60, after 60 batches of its own"
    )


def test_a_bug_before_the_loop_ends_the_job() -> None:
    _, second = told(at(None, 0), at(None, 0))
    assert second is not None
    assert "ended outside of a loop as trainer-0 had before" in second


def test_who_met_nothing_but_ended_loops_is_told_that_they_yield_no_batches() -> None:
    behind = at(None, 0, is_behind=True)
    _, second = told(behind, behind)
    assert second is not None
    assert second.endswith(
        "after 0 batches of its own; loops that have ended yield no batches when a script "
        "begins again: do nothing behind a loop that gave none (docs/training-script.md)"
    )
    for other in (at(None, 0), at(None, 60, is_behind=True)):
        _, second = told(other, other)
        assert "loops that have ended" not in (second or "loops that have ended")


def test_a_record_that_follows_its_task_does_not() -> None:
    assert told(at("task 3", 40), at("task 3", 1), at("task 3", 1)) == [None] * 3


def test_a_bug_that_comes_twice_in_each_task_ends_the_job() -> None:
    in_turn = (at("task 3", batch=1), at("task 3", batch=3), at("task 4", batch=1))
    first, second, third = told(*in_turn)
    assert first is second is None
    assert third is not None


def test_a_second_record_of_that_kind_does_not_either() -> None:
    first, second = at("task 3", 1), at("task 7", 1)
    failures = (at("task 3", 40), first, first, at("task 7", 20), second, second)
    assert told(*failures) == [None] * 6


@pytest.mark.parametrize(
    "other",
    [
        at("task 9", 61),
        at("task 9", place="train.py:61"),
        at("task 9", kind="builtins.KeyError"),
    ],
)
def test_what_differs_does_not(other: Failure) -> None:
    assert told(at("task 3"), other) == [None, None]


def test_what_may_pass_does_not() -> None:
    assert told(at(None, is_own=False), at(None, is_own=False)) == [None, None]
    assert told(None, None, None) == [None] * 3


def test_what_meets_two_at_once_may_have_passed() -> None:
    failures = Failures()
    for trainer in ("trainer-0", "trainer-1"):
        assert failures.note(trainer, at(trainer), "", since_s=0.0, now=5.0) is None
    assert failures.note("trainer-0", at("task 8"), "", since_s=5.1, now=9.0) is not None


def test_every_trainer_that_failed_has_one_line() -> None:
    failures = Failures()
    failures.note("trainer-1", at("task 3"), "", since_s=0.0, now=1.0)
    failures.note("trainer-1", at("task 4", 12), "", since_s=1.0, now=2.0)
    failures.note("trainer-0", None, "exit code 3", since_s=0.0, now=2.0)
    assert failures.told() == {
        "trainer-0": "trainer-0 failed on the way, once: exit code 3",
        "trainer-1": "trainer-1 failed on the way, 2 times: ValueError: x, at "
        "train.py:60, after 12 batches",
    }


def fail(job: Job, role: str, now: float, failure: Failure) -> list[object]:
    exited = Exited(role, job.pids[role], 1, is_crash=True)
    return list(job.apply(ScriptFailed(exited, failure, "exit code 1"), now))


def test_the_supervision_gives_up_at_the_second() -> None:
    job = Job(trainers=2)
    assert roles(fail(job, "trainer-0", 1.0, at("task 3")), Start) == ["trainer-0"]  # type: ignore[arg-type]
    (decision,) = fail(job, "trainer-0", 2.0, at("task 4"))
    assert isinstance(decision, GiveUp)
    assert decision.role == "trainer-0"
    assert "as it had before" in decision.reason
