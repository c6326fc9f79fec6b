"""Who computes what on which values, and when it counts: paceline's own decisions.

The roles are those of a forecast (`paceline.forecast`): `CoordinatorState`,
`ServerState` and `TrainerProtocol` in virtual time, with computing times by a model. Here
it is noted what they decide, so that `benchmarks.pace.dial.replay` can let numbers follow,
for as many learning rates as it likes: no decision depends on them.

Pure: everything is a function of the plan.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, final

from paceline.coordinator.durable.outcomes import AnyOutcome, RoundCommitted
from paceline.forecast.agenda import Agenda
from paceline.forecast.coordinator import Coordinator
from paceline.forecast.gauge import Gauge
from paceline.forecast.models import Draw, draw_compute, draw_pauses
from paceline.forecast.plan import Plan
from paceline.forecast.server import Server
from paceline.forecast.trainer import ForecastPlace, Trainer
from paceline.ids import trainer_id
from paceline.messages.data import Pulled, Push, Pushed
from paceline.messages.shared import Message
from paceline.pace.policy import updates_in_rounds
from paceline.trainer.acts import Lost

LONGEST_S = 1e8


class Computed(NamedTuple):
    """A batch, by its number among all that were begun, and on which version's values."""

    batch: int
    base: int


class Contribution(NamedTuple):
    """A push that counts: whose, of which batches, when it left, and its weight.

    ``weight`` is that of its round; 1 where each push is an update.
    """

    trainer: int
    computed: tuple[Computed, ...]
    sent_s: float
    weight: float = 1.0


class Update(NamedTuple):
    """What leads from one version to the next, and when."""

    at_s: float
    contributions: tuple[Contribution, ...]

    @property
    def batches(self) -> int:
        """That it is made of."""
        return sum(len(one.computed) for one in self.contributions)

    @property
    def oldest(self) -> int | None:
        """The oldest version that it was computed on; None if nothing was."""
        bases = (c.base for one in self.contributions for c in one.computed)
        return min(bases, default=None)


class Schedule(NamedTuple):
    """All updates of a job, in order: the n-th makes version n + 1 of version n.

    ``batches`` counts all that were begun, those without effect among them.
    """

    updates: tuple[Update, ...]
    batches: int


def forced(updates: int, age: int) -> Schedule:
    """Every push is so many updates old, as soon as there were as many."""
    return Schedule(
        tuple(
            Update(n + 1.0, (Contribution(0, (Computed(n, max(0, n - age)),), n + 0.0),))
            for n in range(updates)
        ),
        updates,
    )


def schedule(plan: Plan) -> Schedule:
    """Run a plan to its end; nobody dies in it."""
    assert plan.deaths is None, "what is undone by a death is not noted"
    return _Job(plan).run()


@final
class _Desk:
    """What a server knows of a trainer; notes which values have come to it."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.base = self.held = 0  # the version that was read last, and that is in use
        self.pushed_s = self.in_free_s = 0.0
        self.begun: deque[Computed] = deque()  # and not pushed yet
        self.sent: dict[int, Contribution] = {}  # {number of a push: what it holds}
        self.asked: dict[int, int] = {}  # {number of a request: that of its push}
        self.applied: Callable[[int, Contribution], None] = _nothing

    def push(self, number: int, push: Push, now_s: float) -> None:
        self.asked[number] = push.number
        if push.number not in self.sent:
            index = int(self.trainer.role.rpartition("-")[2])
            self.sent[push.number] = Contribution(index, tuple(self.begun), now_s)
            self.begun.clear()

    def got(self, number: int, role: str, reply: Message | Lost) -> None:
        if isinstance(reply, Pulled):
            self.held = self.base
        if isinstance(reply, Pushed):
            sent = self.asked.pop(number)
            if reply.verdict == "applied":
                self.applied(reply.version, self.sent.pop(sent))
        self.trainer.got(number, role, reply)


def _nothing(_version: int, _sent: Contribution) -> None:
    pass


@final
class _Watched:
    """The server behind desks."""

    def __init__(self, server: Server, agenda: Agenda) -> None:
        self._server, self._agenda = server, agenda
        self.desks: dict[str, _Desk] = {}  # {trainer: desk}

    def ask(self, reader: Trainer, number: int, message: Message) -> None:
        desk = self.desks[reader.role]
        if isinstance(message, Push):
            desk.push(number, message, self._agenda.now_s)
        self._server.ask(desk, number, message)


@final
class _Moments:
    """When pushes were decided, in their order."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self.at_s: list[float] = []

    def aged(self, _age: int) -> None:
        self.at_s.append(self._agenda.now_s)


@final
class _Job:
    """One job, while it runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._agenda = plan, Agenda()
        self._moments = _Moments(self._agenda)
        coordinator = Coordinator(self._agenda, plan, self._decided)
        server = Server(self._agenda, plan, coordinator, self._moments)  # type: ignore[arg-type]  # asked like a gauge
        self._watched = _Watched(server, self._agenda)
        self._place = ForecastPlace(self._agenda, plan, coordinator, self._watched, Gauge())  # type: ignore[arg-type]  # asked like a server
        self._applied: dict[int, Contribution] = {}  # {version: the push that made it}
        self._rounds: list[Update] = []
        self._begun = 0
        self._working = plan.trainers
        for index in range(plan.trainers):
            self._start(index)

    def run(self) -> Schedule:
        is_over = self._agenda.run(LONGEST_S)
        assert is_over, "this job does not end"
        if updates_in_rounds(self._plan.pace):
            return Schedule(tuple(self._rounds), self._begun)
        moments = self._moments.at_s
        assert len(moments) == len(self._applied), "a push was decided and not answered"
        made = [(self._applied[n + 1],) for n in range(len(moments))]
        updates = tuple(map(Update, moments, made))
        return Schedule(updates, self._begun)

    def _start(self, index: int) -> None:
        plan, role = self._plan, trainer_id(index)
        compute = draw_compute(plan.compute, index, Random(f"{plan.seed} compute {index}"))
        pause = None
        if plan.pauses is not None:
            pause = draw_pauses(plan.pauses, Random(f"{plan.seed} pause {index}"))
        noted = self._noted(role, compute)
        trainer = Trainer(role, index + 1, self._place, noted, pause, self._ended)
        desk = self._watched.desks[role] = _Desk(trainer)
        desk.applied = self._applied.__setitem__

    def _noted(self, role: str, draw: Draw) -> Draw:
        """The same draws; each is the moment at which a batch is begun."""

        def begin() -> float:
            desk = self._watched.desks[role]
            desk.begun.append(Computed(self._begun, desk.held))
            self._begun += 1
            return draw()

        return begin

    def _ended(self, _trainer: Trainer) -> None:
        self._working -= 1
        if not self._working:
            self._agenda.end()

    def _decided(self, outcomes: Sequence[AnyOutcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, RoundCommitted):
                desks = self._watched.desks
                counted = tuple(
                    desks[one.trainer].sent.pop(one.number)._replace(weight=one.weight)
                    for one in outcome.contributions
                )
                self._rounds.append(Update(self._agenda.now_s, counted))
