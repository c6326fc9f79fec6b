"""A step of several tables: which trips it takes, by where its pushes go."""

from collections.abc import Mapping

import pytest

from paceline.errors import Refused
from paceline.ids import OF_NO_BATCH
from paceline.messages.data import Push, Pushed
from paceline.messages.locking import ApplyStep, CommitStep
from paceline.messages.shared import Done, Message, Refusal
from paceline.trainer.acts import Ask, Asking, Collect
from paceline.trainer.protocol.tables import push_together


def push(part: int) -> Push:
    return Push(
        incarnation=1,
        timeline=0,
        part=part,
        number=7,
        window=OF_NO_BATCH,
        records=0,
        is_held=True,
    )


def trips(
    pushes: list[dict[str, Message]], answers: Mapping[tuple[str, int], Message]
) -> list[tuple[str, Message]]:
    """Who was asked what, one after the other; ``answers`` by server and part."""
    asking, said = Asking(patience_s=1.0), []
    posted: dict[int, dict[str, Message]] = {}
    act = push_together(asking, pushes)
    replies: object = None
    try:
        while True:
            wanted = act.send(replies)  # type: ignore[arg-type]  # it begins with None
            for post in asking.take_posted():
                posted[post.number] = dict(post.calls)
                said += list(post.calls.items())
            if isinstance(wanted, Collect):
                calls = posted[wanted.posted.number]
                replies = {s: answers[s, one.part] for s, one in calls.items()}  # type: ignore[attr-defined]  # pushes
            else:
                assert isinstance(wanted, Ask)
                said += list(wanted.calls.items())
                replies = dict.fromkeys(wanted.calls, Done())
    except StopIteration:
        return said


def test_to_one_server_all_leave_at_once_and_the_last_says_which_they_are() -> None:
    held, applied = Pushed(verdict="held", version=0), Pushed(verdict="applied", version=1)
    answers = {("server-0", 0): held, ("server-0", 1): applied}
    first, last = trips([{"server-0": push(0)}, {"server-0": push(1)}], answers)
    assert first == ("server-0", push(0))
    assert isinstance(last[1], Push)
    assert last[1].completes == {0: 7, 1: 7}


def test_over_several_servers_the_coordinator_has_the_word() -> None:
    """A server need not have anything of the last table."""
    held = Pushed(verdict="held", version=0)
    answers = {("server-0", 0): held, ("server-1", 1): held}
    said = trips([{"server-0": push(0)}, {"server-1": push(1)}], answers)
    assert not any(isinstance(one, Push) and one.completes for _, one in said)
    assert [type(one) for _, one in said[2:]] == [CommitStep, ApplyStep, ApplyStep]
    assert [role for role, _ in said[2:]] == ["coordinator", "server-0", "server-1"]


def test_where_a_lock_was_lost_nobody_holds_anything_on() -> None:
    held = Pushed(verdict="held", version=0)
    lost = Refusal(kind="lock_lost", text="it was revoked", timeline=0)
    answers = {("server-0", 0): lost, ("server-0", 1): held}
    with pytest.raises(Refused, match="it was revoked"):
        trips([{"server-0": push(0)}, {"server-0": push(1)}], answers)
