"""The wind tunnel: one whole run of a job, its faults, and what must hold.

The real decisions of all roles run in one process, in the virtual time of a forecast.
Messages are lost, repeated, delayed and overtake each other; every role is killed and
restarted between any two of its acts; trainers are frozen until they are thought dead
and wake again. A run has two phases: faults happen for a while, then the world heals and
the job must end within a bound. Any run is replayed from its seed alone.

::

    world        processes that die, a network that does not care
    faults       what may go wrong, and how often; heals after a while
    coordinator  `CoordinatorState` with a journal that survives it
    disk         shares of cuts, some of them damaged
    server       `ServerState` over slots that count what they applied
    trainer      `TrainerProtocol` with a user who computes nothing
    exchanges    values that travel between trainers
    launcher     exit reports, restarts, replacements
    operator     asks for another pace now and then
    checks       what must hold: exactly once, round atomicity, queue conservation
    clocks       what a bound on clocks promises
    job          one whole run
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

import msgspec

from paceline.config import (
    SSP,
    Async,
    Auto,
    Combine,
    DiLoCo,
    JobConfig,
    LocalSGD,
    Pace,
    Sync,
    Zeros,
)
from paceline.coordinator.durable import Durable, restore
from paceline.coordinator.durable.outcomes import CutSkipped, PaceChanged, RoundCommitted
from paceline.ids import COORDINATOR, server_id, trainer_id
from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import (
    OptimizerSpec,
    ParameterSpec,
    PartSpec,
    StageSpec,
    TableSpec,
)
from paceline.pace.changing import begun
from paceline.pace.tables import why_not_for_table
from paceline.trainer.peers import How
from tests.simulate.checks import (
    RoundHistory,
    Violation,
    check_evaluated,
    check_exactly_once,
    check_one_verdict,
)
from tests.simulate.clocks import ClockHistory
from tests.simulate.coordinator import SimCoordinator, SimJournal
from tests.simulate.disk import Disk, Voided
from tests.simulate.exchanges import ExchangeHistory
from tests.simulate.faults import FaultRates
from tests.simulate.launcher import SimLauncher
from tests.simulate.operator import PaceChange, SimOperator
from tests.simulate.server import SimServer
from tests.simulate.trainer import SimTrainer, TrainerHistory
from tests.simulate.world import SimProcess, World

SETTLE_S = 5.0  # servers take what is still on its way to them


class SimJob(NamedTuple):
    """What is simulated; `draw_job` makes a random one from a seed."""

    seed: int
    trainers: int = 3
    servers: int = 2
    paces: tuple[Pace, ...] = (Sync(),)  # of one part each
    records: int = 60
    batch_size: int = 2
    task_size: int = 10
    epochs: int = 2
    step_s: float = 0.02
    fault_s: float = 20.0
    heal_s: float = 120.0
    cut_every_s: float = 2.0
    rates: FaultRates = FaultRates()
    is_tracked: bool = False  # the user tracks objects of its own
    is_averaged: bool = False  # and some of them are averaged when the loop ends
    evaluations: int = 0  # behind the loop
    changes: tuple[PaceChange, ...] = ()  # of paces, while it runs
    rotation: RotationSpec | None = None  # tasks are its cells
    exchange: How | None = None  # values of all parts travel between trainers, so
    tables: frozenset[int] = frozenset()  # parts that are tables of the user's own


class SimReport(NamedTuple):
    """What happened in a run that broke no promise."""

    seconds: float
    faults: dict[str, int]
    duplicates: int
    prepared_dropped: int
    fenced: int
    rounds: int
    timelines: int
    cuts: int
    skipped: int  # cuts that could not be read when all had to return to them
    outcomes: int
    reads: int  # steps whose values were checked, where a pace bounds clocks
    changes: int  # of paces
    voids: int  # batches without effect, over all parts
    exchanged: int = 0  # rounds whose result trainers were told


def draw_job(seed: int) -> SimJob:
    """A random job: paces, sizes, and rates of faults."""
    random = Random(seed)
    paces: list[tuple[Pace, ...]] = [
        (Sync(),),
        (Async(),),
        (Async(pull_every=2),),
        (Async(push_every=4, pull_every=8),),
        (Sync(), Async(push_every=2)),
        (Sync(), Sync()),
    ]
    bounded: list[tuple[Pace, ...]] = [
        (SSP(staleness=1),),
        (SSP(staleness=3), SSP(staleness=1)),
        (Sync(), SSP(staleness=2)),
        (Sync(backup=1),),
        (Sync(backup=1), Async(push_every=2)),
        (Sync(backup=1, late="again"),),
        (LocalSGD(every=5),),
        (LocalSGD(every=3), Async()),
        (DiLoCo(every=3, quorum=2, grace=0.1),),
    ]
    scale = random.choice([0.3, 1.0, 2.0])
    rates = FaultRates()
    job = SimJob(
        seed,
        trainers=random.choice([1, 2, 3, 4]),
        servers=random.choice([1, 2, 3]),
        paces=random.choice(paces),
        records=random.choice([20, 45, 60]),
        task_size=random.choice([4, 10, 16]),
        epochs=random.choice([1, 2, 3]),
        rates=rates._replace(
            loss=rates.loss * random.random() * 2,
            repeat=rates.repeat * random.random() * 2,
            crash_trainer=rates.crash_trainer * scale,
            crash_server=rates.crash_server * scale * random.choice([0, 1, 1]),
            crash_coordinator=rates.crash_coordinator * scale,
            clog=rates.clog * scale,
            damage=random.choice([0.0, rates.damage, 0.5]),
        ),
        is_tracked=random.random() < 0.5,
        is_averaged=random.random() < 0.5,
        evaluations=random.choice([0, 0, 0, 1, 2]),
    )
    if random.random() < 0.25:
        job = job._replace(paces=random.choice(bounded))
    if seed % 4 == 3:
        job = job._replace(changes=_draw_changes(job))
    if seed % 3 == 0:
        may_be = [n for n, pace in enumerate(job.paces) if why_not_for_table(pace) is None]
        job = job._replace(tables=frozenset(may_be))
    return job


def _draw_changes(job: SimJob) -> tuple[PaceChange, ...]:
    """Some paces that the parts may go to, and some that they may not."""
    random = Random(job.seed ^ 0x9ACE)
    paces: list[Pace] = [
        Sync(),
        Sync(backup=1),
        Sync(backup=1, late="again"),
        Async(),
        Async(pull_every=2),
        Async(push_every=4, pull_every=8),
        SSP(staleness=0),
        SSP(staleness=2),
        LocalSGD(every=4),
        DiLoCo(every=3, quorum=1, grace=0.1),
        Auto(wait=0.05, least_s=0.5),
    ]
    moments = sorted(random.random() * 8 for _ in range(random.randint(1, 6)))
    return tuple(
        PaceChange(at_s, random.choice(paces), random.randint(-1, len(job.paces) - 1))
        for at_s in moments
    )


def run_job(job: SimJob, coordinator: type[SimCoordinator] = SimCoordinator) -> SimReport:
    """Simulate a job to its end.

    Args:
        job: what is simulated.
        coordinator: the class that carries for the coordinator.

    Raises:
        Violation: a promise was broken, or the healed job did not end in time.
    """
    world = World(job.seed, job.rates)
    config = JobConfig(
        run=f"sim-{job.seed}",
        trainers=job.trainers,
        servers=job.servers,
        timeout_s=2.0,
        cut_every_s=job.cut_every_s,
        max_task_failures=10**6,  # crashes are counted, but no task is given up
    )
    journal, disk = SimJournal(), Disk()
    rounds = RoundHistory(is_all=not job.changes)
    parts, stage = _parts(job), _stage(job)
    evaluations = _evaluations(job, stage)
    exchanges = None if job.exchange is None else ExchangeHistory(job.exchange)
    history = TrainerHistory({}, {}, ClockHistory(), exchanges)
    starts: dict[str, Callable[[], SimProcess]] = {
        COORDINATOR: lambda: coordinator(world, config, journal, disk)
    }
    for role in map(server_id, range(job.servers)):
        starts[role] = partial(SimServer, world, role, disk, rounds)
    for role in map(trainer_id, range(job.trainers)):
        stages = (stage, *evaluations)
        starts[role] = partial(SimTrainer, world, role, parts, stages, job.step_s, history)
    if job.changes:
        world.start(SimOperator(world, job.changes))
    SimLauncher(world, starts)
    _run(job, world)
    check_evaluated(evaluations, history.values)
    _check_exchanges(job, journal, exchanges)
    report = _check(job, world, stage, rounds, journal, history.clocks.num_reads)
    return report._replace(exchanged=len(exchanges) if exchanges is not None else 0)


def _run(job: SimJob, world: World) -> None:
    """Let time pass until all trainers have ended, and servers have what is on its way."""
    agenda = world.agenda
    try:
        if not agenda.run(job.fault_s):
            world.faults.heal()
            if not agenda.run(job.fault_s + job.heal_s):
                raise Violation(f"not done {job.heal_s:g} s after healing: {_where(world)}")
        world.faults.heal()
        agenda.run(world.now_s + SETTLE_S)
    except AssertionError as error:
        raise Violation(f"seed {job.seed} at {world.now_s:.3f} s: {error}") from error


def _stage(job: SimJob) -> StageSpec:
    """The loop of every script."""
    return StageSpec(
        0,
        job.records,
        job.batch_size,
        job.task_size,
        job.epochs,
        True,
        0,
        "counting",
        tracked=("steps",) if job.is_tracked else (),
        averaged=("steps",) if job.is_tracked and job.is_averaged else (),
        rotation=job.rotation,
    )


def _evaluations(job: SimJob, stage: StageSpec) -> tuple[StageSpec, ...]:
    """What is evaluated behind the loop."""
    evaluation = msgspec.structs.replace(
        stage, epochs=1, shuffle=False, kind="evaluate", averaged=(), rotation=None
    )
    return tuple(
        msgspec.structs.replace(evaluation, stage=1 + number)
        for number in range(job.evaluations)
    )


def _check_exchanges(
    job: SimJob, journal: SimJournal, exchanges: ExchangeHistory | None
) -> None:
    """What trainers were told is of the contributions that were journalled."""
    if exchanges is None:
        return
    state = Durable()
    for outcome in journal.outcomes:
        restore(outcome, state)
        if isinstance(outcome, RoundCommitted):
            at = (state.timeline, outcome.part, outcome.round)
            try:
                exchanges.check(*at, outcome.contributions)
            except Violation as error:
                raise Violation(f"seed {job.seed}: {error}") from error


def _parts(job: SimJob) -> tuple[PartSpec, ...]:
    """What every script shares."""
    return tuple(
        _table(number, pace) if number in job.tables else _part(number, pace)
        for number, pace in enumerate(job.paces)
    )


def _part(number: int, pace: Pace) -> PartSpec:
    parameters = tuple(ParameterSpec((f"w{i}",), (40_000,), "float32") for i in range(2))
    optimizer, (first, auto) = OptimizerSpec("SGD", ({"lr": 1.0},)), begun(pace)
    return PartSpec(number, parameters, optimizer, (), first, auto=auto)


def _table(number: int, pace: Pace) -> PartSpec:
    own = Combine(dtype="int64", num_rows=None if number % 2 else 5)
    return PartSpec(number, (), None, (TableSpec(f"t{number}", 1, own, Zeros()),), pace)


def _where(world: World) -> str:
    process = world.processes.get(COORDINATOR)
    if not isinstance(process, SimCoordinator):
        return "no coordinator"
    status = process.state.status()
    return f"{status.state}, queue {status.queue}, timeline {status.timeline}"


def _check(
    job: SimJob,
    world: World,
    stage: StageSpec,
    rounds: RoundHistory,
    journal: SimJournal,
    reads: int,
) -> SimReport:
    process = world.processes[COORDINATOR]
    assert isinstance(process, SimCoordinator)
    try:
        journalled = process.journalled()
    except AssertionError as error:
        raise Violation(
            f"seed {job.seed}: the journal restores nothing: {error}"
        ) from error
    if process.state.durable != journalled:
        raise Violation(f"seed {job.seed}: the journal restores another state")
    servers = [p for p in world.processes.values() if isinstance(p, SimServer)]
    try:
        for server in servers:
            for part in range(len(job.paces)):
                for slot in server.slots(part):
                    check_exactly_once(stage, slot, server.applied[slot])
        voided = [_voided(part, servers) for part in range(len(job.paces))]
        for part, slots in enumerate(voided):
            check_one_verdict(part, slots)
    except (Violation, KeyError) as error:
        raise Violation(f"seed {job.seed}: {error}") from error
    status = process.state.status()
    if status.records != stage.records * stage.epochs:
        raise Violation(f"seed {job.seed}: {status.records} records are counted")
    counters = status.counters
    return SimReport(
        world.now_s,
        dict(world.faults.counts),
        counters.get("duplicates", 0),
        counters.get("prepared_dropped", 0),
        counters.get("fenced", 0),
        rounds.num_rounds(),
        status.timeline,
        status.cut,
        sum(isinstance(outcome, CutSkipped) for outcome in journal.outcomes),
        len(journal.outcomes),
        reads,
        sum(isinstance(outcome, PaceChanged) for outcome in journal.outcomes),
        sum(len(set().union(*slots.values())) for slots in voided),
    )


def _voided(part: int, servers: list[SimServer]) -> Voided:
    """Of all slots of a part, the batches without effect."""
    return {
        slot: server.voided.get(slot, set())
        for server in servers
        for slot in server.slots(part)
    }
