import os
from collections.abc import Callable, Iterator

import pytest

from paceline import failpoints
from paceline.errors import ForeignPeer, FrameRefused, HandshakeRefused, UsageError
from paceline.ids import COORDINATOR, Window
from paceline.messages.data import KeepTracked, Push
from paceline.messages.shared import Message, SpentTime
from paceline.messages.trainer import AskRecords, Beat, Beaten, Computed, Records
from paceline.messages.waits import Wait, wait_for
from paceline.trainer.acts import Act, Ask, Collect, Lost, Pause, SendPosted
from paceline.trainer.client.connections import Courier
from paceline.trainer.client.driver import Driver, Payload
from paceline.trainer.client.waits import GOES_ON_S, Waits
from paceline.trainer.membership import Heartbeat
from paceline.trainer.protocol.protocol import TrainerProtocol
from tests.trainer.fake_connection import FakeConnection
from tests.trainer.fake_job import FakeJob

QUESTION = AskRecords(incarnation=1, timeline=0)


@pytest.fixture
def driver(job: FakeJob) -> Iterator[Driver]:
    protocol = TrainerProtocol("trainer-0", os.getpid(), "here", patience_s=1.0)
    courier = Courier(
        lambda _: FakeConnection(job, COORDINATOR),
        lambda address, _: FakeConnection(job, address.removeprefix("fake:")),
    )
    driver = Driver(protocol, courier, job.clock, timeout_s=1.0)
    driver.run(protocol.join())
    yield driver
    driver.close()
    failpoints.arm("")


def ask(message: Message) -> Act[Message | Lost]:
    replies = yield Ask({COORDINATOR: message})
    return replies[COORDINATOR]


def test_an_act_is_driven_to_its_result(driver: Driver) -> None:
    assert driver.run(ask(QUESTION)) == Records(records=0, trainers=1)


def test_a_lost_connection_is_an_answer_and_the_next_one_is_fresh(
    job: FakeJob, driver: Driver
) -> None:
    connections = job.connections
    job.lose = lambda _role, _message: True
    lost = driver.run(ask(QUESTION))
    assert lost == Lost("coordinator: lost AskRecords")
    job.lose = lambda _role, _message: False
    assert driver.run(ask(QUESTION)) == Records(records=0, trainers=1)
    assert job.connections == connections + 1


def test_what_an_act_computes_is_the_batchs_and_what_it_waits_is_not(
    job: FakeJob, driver: Driver
) -> None:
    def act() -> Act[None]:
        job.clock.work(0.25)  # cutting gradients
        yield from ask(QUESTION)
        yield Pause(0.0, wait_for("round", "others"))
        job.clock.advance(4.0)  # a server takes so long
        job.clock.work(0.5)  # reading values

    driver.stopwatch.begin()
    job.clock.work(1.0)  # forward and backward
    driver.run(act())
    driver.stopwatch.end()
    told = driver.stopwatch.take()
    assert told is not None
    assert told.mean_s == 1.75


def test_a_trainers_seconds_are_told_by_what_they_went_into(
    job: FakeJob, driver: Driver
) -> None:
    stopwatch, clock = driver.stopwatch, job.clock

    def takes(role: str, _message: Message) -> bool:
        clock.advance(2.0 if role == COORDINATOR else 0.5)
        return True  # that counts as well

    job.lose = takes

    def act() -> Act[None]:
        yield Ask({"server-0": QUESTION, "server-1": QUESTION})
        yield Ask({COORDINATOR: QUESTION})

    before = stopwatch.spent()
    stopwatch.begin()
    clock.advance(0.25)
    stopwatch.has_read()
    clock.advance(4.0)
    driver.run(act())
    clock.advance(1.0)
    stopwatch.end()
    stopwatch.rest()
    clock.advance(100.0)  # the script does something else

    told = stopwatch.spent()
    grown = [new - old for old, new in zip(before, told, strict=True)]
    assert grown == [0.25, 5.0, 1.0, 2.0]


def test_what_lasts_is_told_and_no_second_twice(job: FakeJob, driver: Driver) -> None:
    stopwatch, clock = driver.stopwatch, job.clock
    stopwatch.begin()
    clock.advance(3.0)
    first = stopwatch.spent()
    clock.advance(1.0)
    stopwatch.has_read()

    assert first.read == 3.0
    assert stopwatch.spent().read == 4.0


def refuse_all(job: FakeJob, error: Exception) -> Driver:
    """A driver whose trainer was never a member, and is turned away at each door."""

    def refuse(_incarnation: int) -> FakeConnection:
        raise error

    protocol = TrainerProtocol("trainer-0", os.getpid(), "here", patience_s=1.0)
    courier = Courier(refuse, lambda _address, incarnation: refuse(incarnation))
    return Driver(protocol, courier, job.clock, timeout_s=1.0)


def test_who_comes_to_another_job_is_told_at_once(job: FakeJob) -> None:
    driver = refuse_all(job, ForeignPeer("expects run 'a', the other end has 'b'"))
    with pytest.raises(ForeignPeer, match="the other end has 'b'"):
        driver.run(ask(QUESTION))


def test_a_door_that_is_crowded_is_knocked_at_again(job: FakeJob) -> None:
    driver = refuse_all(job, HandshakeRefused("4 connections are enough"))
    assert driver.run(ask(QUESTION)) == Lost("4 connections are enough")


def test_a_member_is_not_thrown_out_by_what_listens_where_a_role_has_died(
    job: FakeJob, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.lose = lambda _role, _message: True
    driver.run(ask(QUESTION))  # the connection is gone

    def refuse(*_: object) -> FakeConnection:
        raise ForeignPeer("expects run 'a', the other end has 'b'")

    monkeypatch.setattr(Courier, "reach", refuse)
    lost = driver.run(ask(QUESTION))
    assert lost == Lost("expects run 'a', the other end has 'b'")


def test_what_cannot_travel_is_raised(driver: Driver, monkeypatch) -> None:  # noqa: ANN001
    def refuse(*_arguments: object, **_named: object) -> int:
        raise FrameRefused("too long")

    monkeypatch.setattr(FakeConnection, "submit", refuse)
    with pytest.raises(FrameRefused, match="too long"):
        driver.run(ask(QUESTION))


def test_closing_ends_a_pause(driver: Driver) -> None:
    def pause() -> Act[None]:
        driver._closing.set()
        yield Pause(60.0, Wait("coordinator", "the coordinator is away"))

    with pytest.raises(UsageError, match="closed while waiting: the coordinator is away"):
        driver.run(pause())


PUSH = Push(
    incarnation=1,
    timeline=0,
    part=0,
    number=1,
    window=Window(0, 0, ()),
    records=1,
    round=1,
)


@pytest.mark.parametrize(
    ("name", "reached"),
    [("trainer.before_submit_rest", ["server-0"]), ("trainer.between_acks", None)],
)
def test_a_fault_between_servers_leaves_the_connections_closed(
    job: FakeJob, driver: Driver, name: str, reached: list[str] | None
) -> None:
    def push() -> Act[None]:
        yield Ask(dict.fromkeys(job.servers, PUSH))

    failpoints.arm(f"{name}=error@1")
    with pytest.raises(failpoints.InjectedFault):
        driver.run(push())
    served = [role for role, message in job.sent if isinstance(message, Push)]
    assert served == (reached or job.servers)
    left = set(driver._courier._connections)
    assert left == ({COORDINATOR} if reached else {COORDINATOR, "server-0"})


def test_the_heartbeat_beats_only_when_the_loop_is_silent(
    job: FakeJob, driver: Driver
) -> None:
    heartbeat = Heartbeat(driver, job.clock, 1.0)
    assert not heartbeat.beat_if_due()
    job.clock.advance(1.0)
    assert heartbeat.beat_if_due()
    assert not heartbeat.beat_if_due()
    job.clock.advance(0.9)
    driver.run(ask(QUESTION))
    job.clock.advance(0.9)
    assert not heartbeat.beat_if_due()
    [beat] = job.of(Beat)
    assert (beat.state, beat.incarnation) == ("training", 1)


def test_who_has_connected_anew_says_where_it_is_although_its_loop_talks(
    job: FakeJob, driver: Driver
) -> None:
    asking = driver._protocol.asking
    asking.pid, asking.host = 7, "here"
    heartbeat = Heartbeat(driver, job.clock, 1.0)
    driver.run(ask(QUESTION))
    assert not heartbeat.beat_if_due()
    for connection in list(driver._courier._connections.values()):
        driver._courier.drop(COORDINATOR, connection)
    driver.run(ask(QUESTION))
    assert heartbeat.beat_if_due()
    [beat] = job.of(Beat)
    assert (beat.pid, beat.host) == (7, "here")
    assert not heartbeat.beat_if_due()


def test_what_time_went_into_goes_along_with_one_tick(job: FakeJob, driver: Driver) -> None:
    driver.stopwatch.begin()
    job.clock.advance(0.5)
    Heartbeat(driver, job.clock, 1.0).look()
    asking = driver._protocol.asking
    assert asking.take_spent() == SpentTime(read=0.5)
    assert asking.take_spent() is None


def test_a_beat_that_does_not_arrive_is_no_error_and_reconnects(
    job: FakeJob, driver: Driver
) -> None:
    heartbeat = Heartbeat(driver, job.clock, 1.0)
    job.clock.advance(1.0)
    job.lose = lambda _role, _message: True
    assert not heartbeat.beat_if_due()
    job.lose = lambda _role, _message: False
    assert heartbeat.beat_if_due()


def test_how_long_batches_took_is_told_once(job: FakeJob, driver: Driver) -> None:
    driver.stopwatch.begin()
    job.clock.advance(0.5)
    driver.stopwatch.end()
    driver.tell_computed()
    driver.tell_computed()
    [told] = job.of(Computed)
    assert told.batches == 1
    assert set(told.seconds) == {0.5}


def test_a_beat_says_what_is_waited_for(job: FakeJob, driver: Driver) -> None:
    def pause() -> Act[None]:
        yield Pause(0.0, Wait("servers", "servers are not there yet"))

    driver._closing.wait = lambda _seconds: driver.beat()  # type: ignore[assignment,func-returns-value]  # beat meanwhile
    driver.run(pause())
    assert [b.wait for b in job.of(Beat)] == [Wait("servers", "servers are not there yet")]
    assert isinstance(driver.run(ask(job.of(Beat)[0])), Beaten)


def test_an_act_that_is_not_answered_is_one_wait(job: FakeJob, driver: Driver) -> None:
    """A trainer asks in many ways while it waits; its terminal hears of one wait."""
    lines: list[str] = []
    driver.waits = waits = Waits("trainer-0", job.clock, lines.append)
    driver._closing.wait = lambda _seconds: _pass(job, waits)  # type: ignore[assignment,method-assign]  # time passes in pauses alone
    job.lose = lambda role, _message: role == "server-0" and job.clock.now_s() < 15.0

    asking = driver._protocol.asking
    keep = KeepTracked(**asking.who(), number=1)
    driver.run(asking.ask_servers({"server-0": keep}), with_state)
    first, last = lines
    assert first == (
        "trainer-0 waits for server-0 (servers), 10 s: server-0: server-0: lost KeepTracked"
    )
    assert last == "trainer-0 goes on after 15 s: it has waited for server-0 (servers)"
    assert max(beat.wait.since_s for beat in job.of(Beat)) == pytest.approx(15.0, abs=0.5)


def post(driver: Driver) -> Act[None]:
    yield Collect(driver._protocol.asking.post({COORDINATOR: QUESTION}))


def send(driver: Driver) -> Act[None]:
    driver._protocol.asking.post({COORDINATOR: QUESTION})
    yield SendPosted()


@pytest.mark.parametrize("act", [lambda _: ask(QUESTION), post, send])
def test_who_answers_while_the_question_is_submitted_is_waited_for_too(
    job: FakeJob, driver: Driver, act: Callable[[Driver], Act[object]]
) -> None:
    """In one process a server works in the thread of whoever asks it."""
    lines: list[str] = []
    driver.waits = waits = Waits("trainer-0", job.clock, lines.append)

    def work(_role: str, _message: Message) -> bool:
        for _ in range(24):
            _pass(job, waits)
        return False

    job.lose = work
    driver.run(act(driver))
    job.clock.advance(GOES_ON_S + 1)
    waits.look()  # what has rested for so long is over
    assert lines == [
        "trainer-0 waits for coordinator (coordinator), 10 s: coordinator: AskRecords",
        "trainer-0 goes on after 12 s: it has waited for coordinator (coordinator)",
    ]
    assert driver.stopwatch.spent().others == pytest.approx(12.0)


def with_state(_role: str, message: Message) -> Payload:
    return Payload(message, [b"a state"] if isinstance(message, KeepTracked) else [])


def _pass(job: FakeJob, waits: Waits) -> bool:
    job.clock.advance(0.5)
    waits.look()
    return False


def test_what_was_let_go_of_is_lost_to_who_waits_for_it(driver: Driver) -> None:
    """An act that fails lets go of all that is out; whoever catches that trains on."""
    posted = driver._protocol.asking.post({COORDINATOR: QUESTION})

    def post() -> Act[None]:
        yield SendPosted()

    def fail() -> Act[None]:
        yield Pause(0.0)
        raise UsageError("what the user asked for is refused")

    def collect() -> Act[Message | Lost]:
        return (yield Collect(posted))[COORDINATOR]

    driver.run(post())
    with pytest.raises(UsageError, match="refused"):
        driver.run(fail())
    assert isinstance(driver.run(collect()), Lost)
