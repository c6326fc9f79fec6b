"""A job at `auto`: a straggler makes it loosen, a loss that rises makes it tighten."""

from typing import Any

import pytest

from paceline.config import SSP, Async, Auto, Pace, Sync
from paceline.coordinator.durable.outcomes import PaceChanged
from paceline.coordinator.state import TimePassed
from paceline.ids import Span, Window
from paceline.messages.shared import Done, RefusedPush, StageSpec, TrainerClock, Waiting
from paceline.messages.trainer import AskLease, Granted, HandBack, Log, MayGoOn, Ticked
from paceline.messages.watching import ChangePace
from tests.coordinator.decisions.test_pace_changes import obeying

NAMES = ("trainer-0", "trainer-1", "trainer-2")
AUTO = Auto(least_s=10.0)
STAGE = StageSpec(0, 100_000, 2, 2_000, 1, True, 0, "data")
SLOW_S, QUICK_S = 1.0, 0.1


class Trainer:
    """Takes a step in so many seconds, waits where its pace says so, and obeys."""

    def __init__(self, job: Any, name: str, step_s: float) -> None:
        self.job, self.name, self.step_s = job, name, step_s
        self.lease: Any = None
        self.ticket: int | None = None
        self.free_s = job.now
        self.batch = self.number = self.finished = self.timeline = 0
        self.norm: float | None = None  # of its next push, if that is too large

    def act(self) -> None:
        """Whatever can be done at this moment."""
        if self.job.state.durable.timeline != self.timeline:
            self.job.join(self.name, self.job.trainers[self.name])
            self.timeline = self.job.state.durable.timeline
            self.lease = self.ticket = None
        if self.ticket is not None:
            reply = self.job.answers.get(self.ticket)
            if reply is None:
                return
            self.ticket = None
            self.take(reply)
        elif self.job.now >= self.free_s:
            self.go_on()

    def go_on(self) -> None:
        who = self.job.who(self.name)
        if self.lease is None:
            self.ticket = self.job.ask(self.name, AskLease(**who, stage=0))
            return
        pace = self.job.state.durable.parts[0].plan.spec.pace
        self.number += 1
        more = {"round": self.job.state.durable.parts[0].round + 1}
        if not isinstance(pace, Sync):
            self.finished += 1
            steps = self.lease.clock + self.finished
            more = {"clock": TrainerClock(self.lease.entry, steps)}  # type: ignore[dict-item]
        fields = {"number": self.number, **more}
        batch, self.batch = self.batch, self.batch + 1
        if self.norm is not None:
            key, span = self.lease.key, Span(self.lease.key.task, batch, batch)
            window = Window(key.stage, key.epoch, (span,))
            refused = RefusedPush(self.number, window, 2, "too large", self.norm)
            fields["refused"], self.norm = (refused,), None
        self.ticket = self.job.ask_tick(self.name, self.lease, batch, batch, **fields)
        self.asked: Any = fields

    def take(self, reply: Any) -> None:
        if isinstance(reply, Granted):
            self.lease, self.batch, self.finished = reply.lease, reply.lease.first, 0
            self.free_s = self.job.now + self.step_s
        elif isinstance(reply, Waiting | Ticked) and reply.pauses:
            self.hand_back()
        elif isinstance(reply, Waiting):
            self.ask_again()
        elif isinstance(reply, Ticked) and self.must_wait(reply):
            self.wait()
        else:
            self.free_s = self.job.now + self.step_s

    def ask_again(self) -> None:
        if self.lease is None:
            self.free_s = self.job.now
        elif "round" in self.asked:
            self.ticket = self.job.ask_tick(
                self.name, self.lease, self.batch - 1, self.batch - 1, **self.asked
            )
        else:
            self.wait()

    def must_wait(self, ticked: Ticked) -> bool:
        pace = self.job.state.durable.parts[0].plan.spec.pace
        clock = self.asked.get("clock")
        return (
            isinstance(pace, SSP)
            and clock is not None
            and ticked.slowest is not None
            and clock.steps - ticked.slowest > pace.staleness
        )

    def wait(self) -> None:
        pace = self.job.state.durable.parts[0].plan.spec.pace
        ask = MayGoOn(
            **self.job.who(self.name),
            clock=self.asked["clock"],
            staleness=pace.staleness,
        )
        self.ticket = self.job.ask(self.name, ask)

    def hand_back(self) -> None:
        if self.lease is None:
            return
        token, acked = self.lease.token, self.batch - 1
        who = self.job.who(self.name)
        self.job.ask(self.name, HandBack(**who, tokens=(token,), acked=(acked,)))
        self.lease = None


class Running:
    """Three trainers, one of them ten times slower, on a clock of the test's own."""

    def __init__(self, make_job: Any) -> None:
        self.job = make_job(
            trainers=3, pace=Sync(), servers=1, is_checked=False, cut_every_s=0.0
        )
        self.job.pace = AUTO
        self.job.open(*NAMES, stage=STAGE)
        for server in self.job.servers:
            server.obey = obeying(server, server.obey)
        steps = dict(zip(NAMES, (QUICK_S, QUICK_S, SLOW_S), strict=True))
        self.trainers = [Trainer(self.job, name, steps[name]) for name in NAMES]
        self.loss: float | None = 1.0

    def run(self, seconds: float) -> None:
        job, until = self.job, self.job.now + seconds
        while job.now < until:
            job.now += 0.05
            for trainer in self.trainers:
                trainer.act()
            job.serve(1)
            job.apply(TimePassed())
            if int(job.now * 20) % 10 == 0:
                numbers = {"loss": self.loss}
                job.ask("trainer-0", Log(**job.who("trainer-0"), numbers=numbers))

    @property
    def changes(self) -> list[PaceChanged]:
        return [o for o in self.job.outcomes if isinstance(o, PaceChanged)]

    @property
    def pace(self) -> Pace:
        pace: Pace = self.job.state.durable.parts[0].plan.spec.pace
        return pace


@pytest.fixture
def running(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> Running:
    from tests.coordinator import conftest  # noqa: PLC0415

    plain = conftest.PartSpec

    def at_auto(part: int, parameters: Any, optimizer: Any, tables: Any, _: Any) -> Any:
        return plain(part, parameters, optimizer, tables, Sync(), auto=AUTO)

    monkeypatch.setattr(conftest, "PartSpec", at_auto)
    return Running(make_job)


def test_a_straggler_loosens_it_step_by_step_and_an_alarm_tightens_it(
    running: Running,
) -> None:
    running.run(9.0)
    assert (running.pace, running.changes) == (Sync(), [])
    running.run(50.0)
    assert running.pace == Async()
    assert [change.paces[0] for change in running.changes] == [
        "ssp:1",
        "ssp:3",
        "ssp:8",
        "async",
    ]
    assert all("auto: trainers waited" in change.reason for change in running.changes)
    assert running.job.state.status().pace == "auto: async"
    running.loss = 5.0
    running.run(25.0)
    last = running.changes[4]
    assert (last.before[0], last.paces[0]) == ("async", "ssp:8")
    assert last.reason.startswith("auto: loss rose to 5")


def test_a_push_that_is_kept_off_for_its_norm_tightens_it(running: Running) -> None:
    running.run(59.0)
    assert running.pace == Async()
    running.trainers[0].norm = 40.0
    running.run(12.0)
    last = running.changes[4]
    assert (last.before[0], last.paces[0]) == ("async", "ssp:8")
    assert last.reason == "auto: a push had a norm of 40"


def test_a_pace_that_somebody_asks_for_ends_it_and_auto_brings_it_back(
    running: Running,
) -> None:
    running.run(15.0)
    assert running.pace == SSP(staleness=1)
    running.job.ask("operator", ChangePace(pace=SSP(staleness=2)))
    running.run(40.0)
    assert running.pace == SSP(staleness=2), "nobody looks after it any more"
    ticket = running.job.ask("operator", ChangePace(pace=AUTO))
    running.run(3.0)
    assert running.job.answers[ticket] == Done()
    assert running.pace == Sync(), "the step that it begins with"
    running.run(15.0)
    assert running.pace == SSP(staleness=1)
