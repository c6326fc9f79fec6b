"""What a trainer has posted is heard as what it has asked."""

import pytest

from paceline.errors import JobFailed
from paceline.ids import COORDINATOR
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.trainer import Beat, Beaten, Ticked
from paceline.messages.waits import Wait
from paceline.trainer.acts import Abandoned, Act, Ask, Asking, Collect, Lost, Pause


def told(asking: Asking, *replies: Message | Lost) -> Message:
    """What an act that posts to the coordinator, and collects, comes to."""
    post = asking.post({COORDINATOR: asking.beat()})
    act = asking.collect_told(post)
    assert next(act) == Collect(post)
    *first, last = replies
    for reply in first:
        wanted = act.send({COORDINATOR: reply})
        if isinstance(reply, Lost):
            assert isinstance(wanted, Pause), "a coordinator that is away is not pressed"
            wanted = act.send({})
        assert wanted == Ask(post.calls)
    with pytest.raises(StopIteration) as done:
        act.send({COORDINATOR: last})
    said: Message = done.value.value
    return said


def test_a_pause_is_heard_whichever_way_it_was_asked() -> None:
    """Else a trainer of fragments would keep its leases while the pace is to change."""
    asking = Asking(patience_s=1.0)
    told(asking, Ticked(pauses=True))
    assert asking.pauses
    told(asking, Ticked())
    assert not asking.pauses


def test_what_is_lost_or_put_off_is_asked_for_again() -> None:
    asking = Asking(patience_s=1.0)
    assert told(asking, Lost("gone"), Ticked(records=1)) == Ticked(records=1)
    put_off = Waiting(wait=Wait("round", "round 1"))
    assert told(asking, put_off, Ticked(records=2)) == Ticked(records=2)


def test_a_refusal_ends_what_it_was_for() -> None:
    with pytest.raises(Abandoned, match="it was left"):
        told(Asking(patience_s=1.0), Refusal(kind="timeline", text="it was left"))


def insisted(asking: Asking, *replies: Message | Lost) -> Message:
    """What a question to the coordinator comes to that needs an answer; time passes."""
    message = asking.beat("nothing")
    act = asking.ask_once(message)
    assert next(act) == Ask({COORDINATOR: message})
    *first, last = replies
    for reply in first:
        wanted = act.send({COORDINATOR: reply})
        assert isinstance(wanted, Pause)
        assert isinstance(reply, Lost | Waiting)
        reason = reply.wait.reason if isinstance(reply, Waiting) else reply.reason
        assert wanted.wait is not None
        assert reason in wanted.wait.reason, "whoever looks is told"
        asking.now_s += 100.0
        assert act.send({}) == Ask({COORDINATOR: message})
    with pytest.raises(StopIteration) as done:
        act.send({COORDINATOR: last})
    said: Message = done.value.value
    return said


def test_a_coordinator_that_cannot_journal_is_asked_for_as_long_as_it_lasts() -> None:
    asking = Asking(patience_s=1.0)
    full = Waiting(Wait("disk", "waiting for space on the disk of /job"), is_held=True)
    assert insisted(asking, *[full] * 20, Beaten(timeline=0)) == Beaten(timeline=0)
    with pytest.raises(JobFailed, match="no coordinator for 100 s"):
        insisted(asking, full, Lost("gone"), Lost("gone"), Beaten(timeline=0))


def test_any_other_wait_is_an_answer_to_who_asks_once() -> None:
    waiting = Waiting(Wait("round", "others are in the round"))
    assert insisted(Asking(patience_s=1.0), waiting) == waiting


def test_a_server_that_has_moved_is_looked_for_where_it_is_now() -> None:
    """Also in the middle of a step, where the trainer follows a new timeline."""
    asking = Asking(patience_s=1.0)
    servers = asking.servers
    servers["server-0"] = "tcp:10.0.0.2:7"

    def abandon(_: str) -> Act[None]:
        yield Pause(0.0)

    act = asking.read({"server-0": asking.beat()}, abandon)

    next(act)
    look = act.send({"server-0": Lost("nobody listens there")})
    assert isinstance(look, Ask)
    [beat] = look.calls.values()
    assert isinstance(beat, Beat)
    assert beat.wait is not None
    assert beat.wait.kind == "servers"
    moved = {"server-0": "tcp:10.0.0.3:8"}
    act.send({COORDINATOR: Beaten(timeline=0, servers=moved)})

    assert servers == moved


def test_a_server_to_which_there_is_no_way_is_told_until_it_answers() -> None:
    asking = Asking(patience_s=1.0)
    act = asking.ask_servers({"server-0": asking.beat(), "server-1": asking.beat()})

    next(act)
    away = {"server-0": Lost("no way", is_unreached=True), "server-1": Lost("late")}
    look = act.send(away)
    assert isinstance(look, Ask)
    [beat] = look.calls.values()
    assert isinstance(beat, Beat)
    assert beat.unreached == asking.unreached == ("server-0",)
    act.send({COORDINATOR: Beaten(timeline=0)})
    next(act)
    with pytest.raises(StopIteration):
        act.send({server: Ticked() for server in ("server-0", "server-1")})
    assert asking.unreached == ()
