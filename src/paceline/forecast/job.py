"""One forecast: a plan, run in virtual time until its last trainer has left.

Pure: everything is a function of the plan.
"""

from typing import final

import msgspec

from paceline.coordinator.durable.outcomes import AnyOutcome, LeaseGranted, TaskDone
from paceline.errors import UsageError
from paceline.forecast.agenda import Agenda, Line
from paceline.forecast.coordinator import LOOK_S, Coordinator
from paceline.forecast.gauge import SPELLS, Ages, Gauge, Spell
from paceline.forecast.launcher import ForecastLauncher
from paceline.forecast.plan import Plan
from paceline.forecast.server import Server
from paceline.forecast.trainer import ForecastPlace

# A job that comes to one of these never ends, whatever it waits for.
LONGEST_S = 1e8  # three years
MOST_REPEATED = 50  # times that all batches are computed
FEWEST_REPEATED = 200  # batches, before a job is said to go round in circles
MOST_IDLE_S = 10_000.0  # without a batch that begins


class Busyness(msgspec.Struct, frozen=True):
    """How busy something is that serves one at a time."""

    busy: float  # share of the time, 0 to 1
    wait_s: float  # seconds that one waits on average before it is served


class ServerLoad(msgspec.Struct, frozen=True):
    """What each server has to do; all have the same."""

    cpu: Busyness
    inward: Busyness
    outward: Busyness
    bytes_in_per_s: float
    bytes_out_per_s: float
    messages_per_s: float


class Forecast(msgspec.Struct, frozen=True):
    """What a plan comes to.

    ``seconds``, ``records`` and ``batches`` are of the whole job, from its first lease;
    all else is of the time while there was work for everyone. ``batches`` counts what was
    computed in vain, too; ``useful`` is the share that was not. ``updates`` counts rounds,
    or pushes that were applied at once; ``late`` is the share of records whose push came
    when its round was closed. ``spells`` is {what: share of trainers' time};
    ``ages`` are in updates; ``too_old`` is the share of pushes that a guard has kept off
    for theirs; ``gap_mean`` and ``gap_most`` are clocks between the fastest
    and the slowest trainer. ``outcomes`` counts what the coordinator's journal would hold.
    """

    pace: str
    trainers: int
    servers: int
    seconds: float
    records: int
    batches: int
    updates: int
    records_per_second: float
    late: float
    step_s: float
    useful: float
    spells: dict[Spell, float]
    ages: Ages
    too_old: float
    gap_mean: float
    gap_most: int
    server: ServerLoad
    coordinator: Busyness
    requests_per_s: float
    deaths: dict[str, int]
    outcomes: dict[str, int]

    @property
    def effective_per_second(self) -> float:
        """Records a second, without those whose push came too late for its round."""
        return self.records_per_second * (1 - self.late)

    @property
    def updates_per_second(self) -> float:
        """Rounds, or pushes that were applied at once, a second."""
        return self.records_per_second * self.updates / max(1, self.records)


def forecast(plan: Plan) -> Forecast:
    """Run a plan to its end.

    Raises:
        UsageError: the job would not end; says how far it came.
    """
    return _Run(plan).forecast()


class _Moment(msgspec.Struct, frozen=True):
    """Counts as they were at a moment."""

    now_s: float
    records: int
    batches: int
    spells: dict[Spell, float]
    lines: tuple[tuple[float, float, int], ...]  # (busy, waited, served)
    bytes_in: int
    bytes_out: int
    messages: int
    requests: int


@final
class _Run:
    """One forecast, while it runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._stage = plan, plan.stage()
        self._agenda, self._gauge = Agenda(), Gauge()
        self._coordinator = Coordinator(self._agenda, plan, self._decided)
        self._server = Server(self._agenda, plan, self._coordinator, self._gauge)
        place = ForecastPlace(
            self._agenda, plan, self._coordinator, self._server, self._gauge
        )
        self._launcher = ForecastLauncher(place)
        self._began: _Moment | None = None
        self._leased: _Moment | None = None  # when there was nothing more to lease
        self._expected = self._stage.epochs * sum(
            self._stage.num_batches(task) for task in range(self._stage.num_tasks())
        )
        self._active = (0, 0.0)  # batches begun, and since when so many
        self._done_s = 0.0  # when the last task so far was done
        self._agenda.at(LOOK_S, self._look)

    def forecast(self) -> Forecast:
        plan, gauge, coordinator = self._plan, self._gauge, self._coordinator
        if not self._agenda.run(LONGEST_S):
            self._refuse(f"{LONGEST_S / 86_400:,.0f} days have passed")
        end = self._moment()
        began = self._began or end
        until = self._leased if self._leased and self._leased.records else end
        seconds = max(until.now_s - began.now_s, 1e-9)
        records = until.records - began.records
        total_s = seconds * plan.trainers
        spells: dict[Spell, float] = {
            spell: (until.spells[spell] - began.spells[spell]) / total_s for spell in SPELLS
        }
        spells["other"] = max(0.0, 1 - sum(spells.values()) + spells["other"])
        loads = [
            _load(*pair, seconds) for pair in zip(began.lines, until.lines, strict=True)
        ]
        gap_mean, gap_most = gauge.gaps()
        return Forecast(
            pace=str(plan.pace),
            trainers=plan.trainers,
            servers=plan.servers,
            seconds=self._done_s - began.now_s,
            records=end.records,
            batches=end.batches,
            updates=gauge.outcomes["RoundCommitted"] or self._server.num_pushes,
            records_per_second=records / seconds,
            late=coordinator.state.durable.late_records / max(1, end.records),
            step_s=total_s / max(1, until.batches - began.batches),
            useful=min(1.0, self._expected / max(1, end.batches)),
            spells=spells,
            ages=gauge.ages(),
            too_old=self._server.num_old / max(1, self._server.num_pushes),
            gap_mean=gap_mean,
            gap_most=gap_most,
            server=ServerLoad(
                loads[0],
                loads[1],
                loads[2],
                (until.bytes_in - began.bytes_in) / seconds,
                (until.bytes_out - began.bytes_out) / seconds,
                (until.messages - began.messages) / seconds,
            ),
            coordinator=loads[3],
            requests_per_s=(until.requests - began.requests) / seconds,
            deaths=dict(gauge.deaths),
            outcomes=dict(gauge.outcomes),
        )

    def _decided(self, outcomes: list[AnyOutcome]) -> None:
        """The coordinator has decided something."""
        counts, spec = self._gauge.outcomes, self._stage
        for outcome in outcomes:
            counts[type(outcome).__name__] += 1
            if isinstance(outcome, TaskDone):
                self._done_s = self._agenda.now_s
            if isinstance(outcome, LeaseGranted):
                key = outcome.lease.key
                if self._began is None:
                    self._began = self._moment()
                is_last = key.task == spec.num_tasks() - 1 and key.epoch == spec.epochs - 1
                if is_last and self._leased is None:
                    self._leased = self._moment()

    def _refuse(self, reason: str) -> None:
        gauge, deaths = self._gauge, self._gauge.deaths.total()
        lost = gauge.outcomes["TrainerLost"] - gauge.deaths["trainer"]
        raise UsageError(
            f"this job does not end: {reason}, {gauge.batches:,} batches were begun, and "
            f"{gauge.outcomes['TaskDone']:,} tasks done; {self._expected:,} batches are to "
            f"be trained. Processes died {deaths:,} times, and {lost:,} leases were taken "
            f"from trainers that made no progress: batches must be shorter than a lease "
            f"lasts, and lives longer than the time between two checkpoints"
        )

    def _look(self) -> None:
        batches, since_s = self._active
        if self._gauge.batches > max(FEWEST_REPEATED, MOST_REPEATED * self._expected):
            self._refuse(f"all was computed {MOST_REPEATED} times")
        if batches != self._gauge.batches:
            self._active = (self._gauge.batches, self._agenda.now_s)
        elif self._agenda.now_s - since_s > MOST_IDLE_S:
            self._refuse(f"for {MOST_IDLE_S:,.0f} s no batch has begun")
        trainers = self._launcher.trainers.values()
        self._gauge.spread([trainer.protocol.asking.clock for trainer in trainers])
        self._agenda.at(self._agenda.now_s + LOOK_S, self._look)

    def _moment(self) -> _Moment:
        server, coordinator = self._server, self._coordinator
        for trainer in self._launcher.trainers.values():
            trainer.account()
        lines: list[Line] = [server.cpu, server.inward, server.outward, coordinator.line]
        return _Moment(
            self._agenda.now_s,
            coordinator.state.status().records,
            self._gauge.batches,
            dict(self._gauge.spells),
            tuple((line.busy_s, line.waited_s, line.num_served) for line in lines),
            server.bytes_in,
            server.bytes_out,
            server.num_messages,
            coordinator.line.num_served,
        )


def _load(
    before: tuple[float, float, int], after: tuple[float, float, int], seconds: float
) -> Busyness:
    busy, waited, served = (b - a for a, b in zip(before, after, strict=True))
    return Busyness(min(1.0, busy / seconds), waited / max(1, served))
