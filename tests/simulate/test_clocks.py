"""SSP in the wind tunnel: the bound on clocks and what reads must show, from histories."""

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from paceline.config import SSP, Async, Pace
from paceline.coordinator.decisions import consequences as decisions
from paceline.coordinator.durable import Queue
from paceline.coordinator.ledgers.clocks import Clocks
from paceline.messages.shared import TrainerClock
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.protocol import pacing as marching
from paceline.trainer.protocol.pacing import StalenessGate
from tests.simulate.checks import Violation
from tests.simulate.faults import QUIET
from tests.simulate.job import SimJob, draw_job, run_job

READS = int(os.environ.get("PACELINE_SIM_READS", "8000"))  # of all bounds together
BOUNDS = [0, 1, 3, 10]
Patch = pytest.MonkeyPatch


def draw_bounded(seed: int, staleness: int | None = None, trainers: int = 0) -> SimJob:
    """Trainers of random speeds, joins and deaths, under a bound.

    Args:
        seed: of everything.
        staleness: the bound; None: any of `BOUNDS`.
        trainers: how many there are; 0: two, four or eight.
    """
    random = Random(seed)
    drawn = random.choice(BOUNDS)
    bound = drawn if staleness is None else staleness
    pace = SSP(staleness=bound)
    paces: list[tuple[Pace, ...]] = [
        (pace,),
        (pace,),
        (pace, SSP(staleness=bound + 2)),
        (pace, Async(push_every=3)),
    ]
    return draw_job(seed)._replace(
        trainers=trainers or random.choice([2, 4, 8]),
        paces=random.choice(paces),
        records=random.choice([60, 200, 600]),
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("staleness", BOUNDS)
def test_no_read_breaks_the_bound(staleness: int) -> None:
    happened: Counter[str] = Counter()
    seed = 0
    while happened["reads"] < READS // len(BOUNDS):
        report = run_job(draw_bounded(seed, staleness, trainers=8))
        happened.update(report.faults)
        happened.update(reads=report.reads, jobs=1)
        seed += 1
    print(f"ssp:{staleness}, 8 trainers: {dict(happened)}")  # noqa: T201  (the figures of a soak)
    missing = {name for name in ("crash_trainer", "slow", "loss") if not happened[name]}
    assert not missing, f"nothing was proved about {missing}: {happened}"


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_trainers_of_one_speed_lose_nothing_and_are_checked(staleness: int) -> None:
    job = SimJob(1, trainers=4, paces=(SSP(staleness=staleness),), rates=QUIET)
    report = run_job(job)
    assert report.reads >= 60  # a read for each batch of each epoch
    assert (report.duplicates, report.fenced, report.timelines) == (0, 0, 0)


def bound_off_by_one(patch: Patch) -> None:
    def is_within(staleness: int, clock: int, slowest: int) -> bool:
        return clock - slowest <= staleness + 1

    patch.setattr(decisions, "is_within", is_within)
    patch.setattr(marching, "is_within", is_within)


def joiner_at_the_fastest(patch: Patch) -> None:
    real = Clocks.enter

    def enter(self: Clocks, incarnation: int, entry: int, queue: Queue) -> tuple[int, int]:
        fastest = max(self._at, default=0)
        own, slowest = real(self, incarnation, entry, queue)
        if own != slowest:
            return own, slowest
        self.leave(incarnation)
        self._put(incarnation, TrainerClock(entry, max(own, fastest)))
        return max(own, fastest), slowest

    patch.setattr(Clocks, "enter", enter)


def own_push_missing(patch: Patch) -> None:
    def pull_due(self: SharedPart, *, has_pushed: bool) -> bool:
        return self.batches_since_pull >= 2 and has_pushed

    patch.setattr(SharedPart, "pull_due", pull_due)


def stale_values(patch: Patch) -> None:
    def reads(self: StalenessGate, part: SharedPart) -> None:
        part.seen = (self.clock or 0) + 1  # as if they were of now

    patch.setattr(StalenessGate, "reads", reads)
    patch.setattr(StalenessGate, "may_read", lambda _self, _part: True)


MUTANTS = [bound_off_by_one, joiner_at_the_fastest, own_push_missing, stale_values]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_mutant_is_caught(
    mutant: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(Violation, match=r"ahead|without push"):
        _run(range(100))


def _run(seeds: range) -> None:
    for seed in seeds:
        run_job(draw_bounded(seed))
