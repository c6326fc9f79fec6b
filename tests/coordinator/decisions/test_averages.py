"""At the end of a stage buffers are averaged once over all who trained, then it is cut."""

from typing import Any

import msgspec
import pytest

from paceline.coordinator.decisions import tracked as averaging
from paceline.coordinator.durable.outcomes import CutCommitted
from paceline.ids import Span, Window
from paceline.messages.shared import AverageShare, Waiting
from paceline.messages.trainer import (
    AskLease,
    BuffersKept,
    Save,
    StageOver,
    Tick,
    Ticked,
    TrackedKept,
)
from tests.coordinator.conftest import STAGE

NAMES = ("buffers of part 0",)
SMALL = msgspec.structs.replace(
    STAGE, records=20, epochs=1, tracked=NAMES, averaged=NAMES
)  # two tasks of five batches
SHARES = {"trainer-0": (101, 12), "trainer-1": (201, 8)}


def ask(job: Any, trainer: str) -> int:
    ticket: int = job.ask(trainer, AskLease(**job.who(trainer), stage=0))
    return ticket


def train_all(job: Any) -> dict[str, int]:
    """Both trainers work off a task each and ask for more; their tickets."""
    job.open("trainer-0", "trainer-1", stage=SMALL)
    ticket = ask(job, "trainer-0")
    second = job.lease("trainer-1")
    first = job.answers[ticket].lease
    for batch in range(5):
        job.ask("trainer-0", _tick(job, "trainer-0", first, batch))
        assert isinstance(
            job.get("trainer-1", _tick(job, "trainer-1", second, batch)), Ticked
        )
    tickets = {trainer: ask(job, trainer) for trainer in ("trainer-0", "trainer-1")}
    job.serve()
    return tickets


def _tick(job: Any, trainer: str, lease: Any, batch: int) -> Any:
    return Tick(
        **job.who(trainer),
        part=0,
        number=batch + 1,
        window=Window(0, 0, (Span(lease.key.task, batch, batch),)),
        records=2,
        acked=(batch,),
        round=batch + 1,
        is_prepared=True,
    )


def keep_buffers(job: Any, *trainers: str) -> None:
    for trainer in trainers:
        number, records = SHARES[trainer]
        kept = BuffersKept(**job.who(trainer), number=number, records=records)
        job.get(trainer, kept)


@pytest.fixture
def job(make_job: Any) -> Any:
    return make_job(trainers=2)


def ends(job: Any) -> list[CutCommitted]:
    return [o for o in job.outcomes if isinstance(o, CutCommitted) and o.ends_stage]


def test_all_who_wait_are_asked_for_their_buffers_first(job: Any) -> None:
    for ticket in train_all(job).values():
        answer = job.answers[ticket]
        assert isinstance(answer, Waiting)
        assert answer.buffers
    assert not ends(job)


def test_one_averages_by_records_and_its_state_is_in_the_cut(job: Any) -> None:
    train_all(job)
    keep_buffers(job, "trainer-0", "trainer-1")
    tickets = {trainer: ask(job, trainer) for trainer in SHARES}
    ordered = [t for t in SHARES if isinstance(job.answers.get(tickets[t]), Waiting)]
    assert ordered == ["trainer-0"]
    order = job.answers[tickets["trainer-0"]]
    assert order.average == (AverageShare(101, 12), AverageShare(201, 8))
    assert not ends(job)
    who = job.who("trainer-0")
    kept = TrackedKept(**who, number=102, rounds={0: 5}, is_average=True)
    job.get("trainer-0", kept)
    assert job.state.durable.tracked == 102
    assert len(ends(job)) == 1
    over = job.answers[tickets["trainer-1"]]
    assert isinstance(over, StageOver)
    assert over.tracked == 102
    job.restart()
    job.serve()
    late = job.get("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    assert late.tracked == 102, "a restarted coordinator still knows"


def test_who_is_lost_before_is_not_awaited_and_another_averages(job: Any) -> None:
    train_all(job)
    keep_buffers(job, "trainer-0", "trainer-1")
    ticket = ask(job, "trainer-1")
    job.join("trainer-2")  # somebody new, who has trained nothing
    job.lose("trainer-0")
    late = job.ask("trainer-2", AskLease(**job.who("trainer-2"), stage=0))
    job.serve()
    assert job.answers[late].buffers
    job.get("trainer-2", BuffersKept(**job.who("trainer-2"), number=301, records=0))
    order = job.answers[ticket]
    assert order.average == (AverageShare(201, 8),), "who trained nothing weighs nothing"


def test_a_trainer_that_does_not_come_is_not_awaited_for_ever(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(averaging, "AWAIT_S", 4.0)
    train_all(job)
    keep_buffers(job, "trainer-0")
    ticket = ask(job, "trainer-0")
    job.wait(2.0)
    waiting = job.answers[ticket]
    assert not waiting.average
    assert "the float buffers of trainer-1 are awaited" in waiting.wait.reason
    job.wait(3.0)
    assert job.answers[ask(job, "trainer-0")].average == (AverageShare(101, 12),)


def test_who_has_left_the_loop_early_is_not_in_the_average(job: Any) -> None:
    train_all(job)
    job.ask("trainer-1", Save(**job.who("trainer-1"), number=-1, left=0))
    keep_buffers(job, "trainer-0")
    assert job.answers[ask(job, "trainer-0")].average == (AverageShare(101, 12),)


def test_a_trainer_alone_keeps_its_state_as_ever(make_job: Any) -> None:
    job = make_job(trainers=1)
    job.open("trainer-0", stage=SMALL)
    number = 0
    for _ in range(2):
        lease = job.lease("trainer-0")
        for batch in range(5):
            number += 1
            tick = msgspec.structs.replace(
                _tick(job, "trainer-0", lease, batch), round=number, number=number
            )
            job.get("trainer-0", tick)
    answer = job.get("trainer-0", AskLease(**job.who("trainer-0"), stage=0))
    assert isinstance(answer, Waiting)
    assert (answer.track, answer.buffers) == (True, False)
