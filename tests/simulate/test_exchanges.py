"""Values that travel between trainers: the same bits everywhere, whoever comes and goes."""

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from paceline.config import Sync
from paceline.coordinator.ledgers.rounds import Rounds
from paceline.trainer.peers.collective import CollectiveCall
from paceline.trainer.peers.outbox import PeerOutbox
from paceline.trainer.peers.reduction import How
from tests.simulate.checks import Violation
from tests.simulate.job import SimJob, draw_job, run_job

NUM_SEEDS = 30
HOWS: tuple[How, ...] = ("allreduce", "regroup+allgather")
Patch = pytest.MonkeyPatch


def job(seed: int) -> SimJob:
    """Trainers, servers and the coordinator die; some jobs have two parts a step."""
    paces = (Sync(),) * (1 + seed % 5 // 4)
    drawn = draw_job(seed)._replace(paces=paces, changes=(), exchange=HOWS[seed % 2])
    return drawn._replace(trainers=max(2, drawn.trainers))


def run_all() -> Counter[str]:
    happened: Counter[str] = Counter()
    for seed in range(NUM_SEEDS):
        report = run_job(job(seed))
        happened.update(report.faults)
        happened["exchanged"] += report.exchanged
    return happened


def test_over_a_hundred_changes_of_membership_all_have_the_same_bits() -> None:
    happened = run_all()
    changes = happened["crash_trainer"] + happened["leave"]
    assert changes >= 100, happened  # each comes back: a loss and a join
    assert happened["crash_server"], happened
    assert happened["crash_coordinator"], happened
    assert happened["exchanged"] > 10 * NUM_SEEDS, happened


def reduce_by_arrival(patch: Patch) -> None:
    def as_they_came(call: CollectiveCall) -> tuple[str, ...]:
        came = [name for name, stage in call._came if stage == 0]
        return tuple(dict.fromkeys([*came, *call._givers]))

    patch.setattr(CollectiveCall, "_asked", as_they_came)


def take_values_of_an_old_exchange(patch: Patch) -> None:
    received = PeerOutbox.received

    def anything(shelf: PeerOutbox, asker: str, message: object, *rest: object) -> None:
        asked = msgspec.structs.replace(message, exchange=shelf._exchange)  # type: ignore[type-var]
        received(shelf, asker, asked if shelf._stages else message, *rest)  # type: ignore[arg-type]

    patch.setattr(PeerOutbox, "received", anything)


def close_with_other_members(patch: Patch) -> None:
    patch.setattr(Rounds, "_is_one_exchange", lambda _self, _part, _state: True)


@pytest.mark.parametrize(
    "bug",
    [reduce_by_arrival, take_values_of_an_old_exchange, close_with_other_members],
)
def test_a_planted_bug_is_noticed(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    with pytest.raises(Violation, match="came to"):
        run_all()
