"""A trainer of a forecast: `TrainerProtocol` with a user who computes as the model says.

Pure: the agenda's time is the only one.
"""

from collections.abc import Callable
from typing import NamedTuple, final

from paceline.forecast.agenda import Agenda
from paceline.forecast.coordinator import Coordinator
from paceline.forecast.driver import ActDriver
from paceline.forecast.gauge import Gauge, Spell
from paceline.forecast.models import Draw
from paceline.forecast.plan import Plan
from paceline.forecast.server import Server
from paceline.ids import COORDINATOR
from paceline.messages.data import PullRows
from paceline.messages.shared import Message
from paceline.messages.trainer import AskLease, Leave
from paceline.trainer.acts import Act, Ask, Collect, Pause, Replies
from paceline.trainer.protocol import Coming, TrainerProtocol
from paceline.trainer.verdicts import Batch, Flush

PATIENCE_S = 1e9


class ForecastPlace(NamedTuple):
    """Where trainers run: whom they ask, and who measures them."""

    agenda: Agenda
    plan: Plan
    coordinator: Coordinator
    server: Server
    gauge: Gauge


@final
class Trainer(ActDriver):
    """One process of a trainer: it shares, runs one loop to its end, and leaves.

    Its cable has carried all that it sends at ``pushed_s``, and has brought all that was
    sent to it at ``in_free_s``.
    """

    def __init__(
        self,
        role: str,
        pid: int,
        place: ForecastPlace,
        compute: Draw,
        pause: Draw | None,
        ended: Callable[["Trainer"], None],
    ) -> None:
        """Start now; ``ended`` is told when its script has come to its end."""
        self.role, self.pid = role, pid
        self.protocol = TrainerProtocol(role, pid, "forecast", patience_s=PATIENCE_S)
        super().__init__(self._run(), self.protocol.asking)
        self.is_alive = True  # whether it has neither died nor left
        self.base = 0  # the version that its values are of
        self.pushed_s = self.in_free_s = place.agenda.now_s
        self._place, self._ended = place, ended
        self._compute, self._pause = compute, pause
        self._coming: Coming | None = self._rows if place.plan.row_bytes else None
        self._spell: Spell = "other"
        self._script_is: Spell = "other"  # when it waits for nobody
        self._since_s = place.agenda.now_s
        place.agenda.at(place.agenda.now_s, self.resume, None)

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
        leave = Leave(incarnation=protocol.asking.incarnation, timeline=0, is_done=True)
        yield from protocol.ask(leave)

    def _rows(self) -> dict[str, Message]:
        """The rows of the next batch, of which nothing is known but their bytes."""
        return dict.fromkeys(
            self.protocol.servers,
            PullRows(incarnation=0, timeline=0, part=0, rows=(), create=True),
        )

    def resume(self, replies: Replies | None) -> None:
        """Let the protocol act until it waits for something, if it is alive."""
        if not self.is_alive:
            return
        self.account()
        self.protocol.asking.now_s = self._since_s
        try:
            while (told := self.go_on(replies)) is not None:
                replies = told
        except StopIteration:
            self.is_alive = False
            self._ended(self)

    def carry(self, number: int, role: str, message: Message) -> None:
        """Send a question to the coordinator, or to the one server that stands for all."""
        if role == COORDINATOR:
            self._place.coordinator.ask(self.role, message, self, number)
        else:
            self._place.server.ask(self, number, message)

    def waits(self, wanted: Ask | Collect | Pause) -> None:
        """Note what its time goes to."""
        if isinstance(wanted, Pause):
            self._spell = "other" if wanted.wait else self._script_is
            self._place.agenda.at(self._since_s + wanted.seconds, self.resume, _NOTHING)
            return
        calls = wanted.calls if isinstance(wanted, Ask) else wanted.posted.calls
        [(role, message)] = calls.items()
        if role != COORDINATOR:
            self._spell = "servers"
        else:
            self._spell = "without work" if isinstance(message, AskLease) else "coordinator"


_NOTHING: Replies = {}
