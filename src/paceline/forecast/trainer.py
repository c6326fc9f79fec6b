"""A trainer of a forecast: `TrainerProtocol` with a user who computes as the model says.

Pure: the agenda's time is the only one.
"""

from collections.abc import Callable
from typing import final

from paceline.forecast.agenda import Agenda
from paceline.forecast.coordinator import Coordinator
from paceline.forecast.gauge import Gauge, Spell
from paceline.forecast.models import Draw
from paceline.forecast.plan import Plan
from paceline.forecast.server import Server
from paceline.ids import COORDINATOR
from paceline.messages.data import PullRows
from paceline.messages.shared import Message
from paceline.messages.trainer import AskLease, Leave
from paceline.trainer.acts import (
    Act,
    Ask,
    Collect,
    Lost,
    Pause,
    Post,
    Posted,
    Replies,
)
from paceline.trainer.protocol import Coming, TrainerProtocol
from paceline.trainer.verdicts import Batch, Flush

PATIENCE_S = 1e9
ASKED = 0  # the number of what is waited for at once; posts count from 1


@final
class Trainer:
    """One process of a trainer: it shares, runs one loop to its end, and leaves.

    Attributes:
        protocol: its decisions.
        is_alive: whether it has neither died nor left.
        base: the version that its values are of.
        pushed_s: when its cable has carried all that it sends.
        in_free_s: when its cable has brought all that was sent to it.
    """

    def __init__(
        self,
        role: str,
        pid: int,
        place: "ForecastPlace",
        compute: Draw,
        pause: Draw | None,
        ended: Callable[["Trainer"], None],
    ) -> None:
        """Start now.

        Args:
            role: its id.
            pid: unlike that of any process before.
            place: where it runs.
            compute: how long each batch computes.
            pause: how long nothing happens before each batch; None: never.
            ended: is told when its script has come to its end.
        """
        self.role, self.pid = role, pid
        self.protocol = TrainerProtocol(role, pid, "forecast", patience_s=PATIENCE_S)
        self.is_alive = True
        self.base = 0
        self.pushed_s = self.in_free_s = place.agenda.now_s
        self._place, self._ended = place, ended
        self._compute, self._pause = compute, pause
        self._coming: Coming | None = self._rows if place.plan.row_bytes else None
        self._posted: dict[int, _Posted] = {}  # {number: what was posted under it}
        self._awaits = ASKED  # the number of what it waits for
        self._asked = ""  # the role that it waits for
        self._spell: Spell = "other"
        self._script_is: Spell = "other"  # when it waits for nobody
        self._since_s = place.agenda.now_s
        self._act = self._run()
        place.agenda.at(place.agenda.now_s, self._begin)

    def got(self, number: int, reply: Message | Lost) -> None:
        """A reply is here."""
        if not self.is_alive:
            return
        if number == self._awaits:
            self._posted.pop(number, None)
            self._awaits = _NOBODY
            self._resume({self._asked: reply})
            return
        posted = self._posted.get(number)
        if posted is None:
            return
        posted.reply = reply

    def account(self) -> None:
        """What has passed since it was accounted last went to what it does now."""
        now_s = self._place.agenda.now_s
        self._place.gauge.spells[self._spell] += now_s - self._since_s
        self._since_s = now_s

    def _run(self) -> Act[None]:
        protocol, place = self.protocol, self._place
        plan, gauge, [part] = place.plan, place.gauge, [place.plan.part().part]
        yield from protocol.share(plan.part())
        yield from protocol.begin_stage(plan.stage())
        compute, pause, trainer_s = self._compute, self._pause, plan.trainer_s
        while True:
            found = yield from protocol.next_batch()
            if isinstance(found, Batch):
                if pause is not None and (pause_s := pause()) > 0:
                    self._script_is = "paused"
                    yield Pause(pause_s)
                compute_s = compute()
                gauge.batches += 1
                self._script_is = "computing"
                yield Pause(compute_s)
                if trainer_s:
                    self._script_is = "other"
                    yield Pause(trainer_s)
                yield from protocol.step(part, coming=self._coming)
            elif isinstance(found, Flush):
                yield from protocol.step(part, flush=True)
            else:
                break
        leave = Leave(incarnation=protocol.incarnation, timeline=0, is_done=True)
        yield from protocol.ask(leave)

    def _rows(self) -> dict[str, Message]:
        """The rows of the next batch, of which nothing is known but their bytes."""
        return dict.fromkeys(
            self.protocol.servers,
            PullRows(incarnation=0, timeline=0, part=0, rows=(), create=True),
        )

    def _begin(self) -> None:
        self._resume(None)

    def _go_on(self) -> None:
        if self.is_alive:
            self._resume({})

    def _resume(self, replies: Replies | None) -> None:
        """Let the protocol act until it waits for something; None: from its beginning."""
        place = self._place
        agenda, send = place.agenda, self._act.send
        now_s = self.protocol.asking.now_s = agenda.now_s
        place.gauge.spells[self._spell] += now_s - self._since_s  # as `account`
        self._since_s = now_s
        try:
            wanted = send(replies)  # type: ignore[arg-type]  # a generator begins with None
            while True:
                if type(wanted) is Post:
                    self._post(wanted.posted)
                    wanted = send(_NOTHING)
                elif type(wanted) is Collect:
                    number = wanted.posted.number
                    posted = self._posted[number]
                    if posted.reply is None:
                        self._wait(number, posted.role, _spell(posted.role))
                        return
                    del self._posted[number]
                    wanted = send({posted.role: posted.reply})
                elif type(wanted) is Ask:
                    [(role, message)] = wanted.calls.items()
                    self._ask(role, message)
                    return
                elif type(wanted) is Pause:
                    self._spell = "other" if wanted.wait else self._script_is
                    agenda.at(now_s + wanted.seconds, self._go_on)
                    return
                else:
                    self._posted.clear()
                    wanted = send(_NOTHING)
        except StopIteration:
            self.is_alive = False
            self._ended(self)

    def _post(self, posted: Posted) -> None:
        [(role, message)] = posted.calls.items()
        self._posted[posted.number] = _Posted(role)
        if role == COORDINATOR:
            self._place.coordinator.ask(self.role, message, self, posted.number)
        else:
            self._place.server.ask(self, posted.number, message)

    def _ask(self, role: str, message: Message) -> None:
        if role == COORDINATOR:
            is_idle = isinstance(message, AskLease)
            self._wait(ASKED, role, "without work" if is_idle else "coordinator")
            self._place.coordinator.ask(self.role, message, self, ASKED)
        else:
            self._wait(ASKED, role, "servers")
            self._place.server.ask(self, ASKED, message)

    def _wait(self, number: int, role: str, spell: Spell) -> None:
        self._awaits, self._asked, self._spell = number, role, spell


@final
class _Posted:
    """What was posted to a role, and the reply once it is there."""

    __slots__ = ("reply", "role")

    def __init__(self, role: str) -> None:
        self.role = role
        self.reply: Message | Lost | None = None


def _spell(role: str) -> Spell:
    return "coordinator" if role == COORDINATOR else "servers"


_NOBODY = -1
_NOTHING: Replies = {}


@final
class ForecastPlace:
    """Where trainers run: whom they ask, and who measures them."""

    def __init__(
        self,
        agenda: Agenda,
        plan: Plan,
        coordinator: Coordinator,
        server: Server,
        gauge: Gauge,
    ) -> None:
        """One for all trainers of a job."""
        self.agenda, self.plan = agenda, plan
        self.coordinator, self.server = coordinator, server
        self.gauge = gauge
