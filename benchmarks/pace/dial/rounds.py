"""How late the last gradients of a round come, and what doing without them gains.

Pure.
"""

import statistics

from benchmarks.pace.dial.schedule import schedule
from benchmarks.pace.dial.table import Table, doubts_of, told, told_s
from benchmarks.pace.dial.tuning import BATCH, TARGET, Place, tune
from paceline.forecast.models import Pauses

TRAINERS = 16
PLACE = Place(TRAINERS, "lognormal:0.05,0.2", Pauses(0.02, 0.3))
BATCHES = 6_400
BACKUPS = (0, 1, 2, 3, 4, 6, 8)
SHOWN = (1, 8, 12, 13, 14, 15, 16)
WITHIN = (0.06, 0.08, 0.1, 0.2, 0.5)  # seconds from the beginning of the round
_SETTING = (
    "Sixteen trainers, batches of 50 ms in the median (sigma 0.2), before one in fifty a "
    "pause of 0.3 s on average"
)


def arrivals(seeds: int, batches: int = BATCHES) -> Table:
    """In which share of all rounds the k-th gradient is there after so long."""
    came: dict[int, list[float]] = {k: [] for k in range(1, TRAINERS + 1)}
    for seed in range(seeds):
        began_s = 0.0
        for update in schedule(PLACE.plan("sync", batches, seed)).updates:
            if len(update.contributions) == TRAINERS:
                sent = sorted(one.sent_s - began_s for one in update.contributions)
                for k, seconds in enumerate(sent, 1):
                    came[k].append(seconds)
            began_s = update.at_s
    shares = {k: {f"{limit:g}": _share(came[k], limit) for limit in WITHIN} for k in SHOWN}
    rows = [["gradient", *(f"within {limit:g} s" for limit in WITHIN), "median"]]
    for k, within in shares.items():
        shown = [f"{share:.0%}" for share in within.values()]
        rows.append([_named(k), *shown, f"{statistics.median(came[k]):.3f} s"])
    return Table(
        "arrivals",
        "When the gradients of a round are there",
        f"{_SETTING}; `sync`, {len(came[1]):,} rounds",
        rows,
        {
            _named(k): {f"{limit:g}": _share(came[k], limit) for limit in _limits()}
            for k in SHOWN
        },
        "seconds from the beginning of the round",
        "share of all rounds",
    )


def backups(seeds: int, batches: int = BATCHES) -> Table:
    """What rounds that do without some gain and lose."""
    rows = [["done without", "s a round", "rounds", "s to the loss", "rate"]]
    values: dict[str, dict[str, float]] = {
        "s a round": {},
        "rounds to the loss": {},
        "seconds to the loss": {},
    }
    inside = []
    for backup in BACKUPS:
        pace = f"sync:backup={backup}" if backup else "sync"
        tuned = tune(PLACE, pace, batches, seeds)
        inside.append((pace, tuned.rate, tuned.is_inside))
        rounds, seconds = tuned.median("updates"), tuned.median("seconds")
        round_s = statistics.median(one.seconds / one.updates for one in tuned.seeds)
        for series, value in zip(values.values(), (round_s, rounds, seconds), strict=True):
            series[str(backup)] = value
        cells = [f"{round_s:.3f}", told(rounds), told_s(seconds), f"{tuned.rate:.3g}"]
        rows.append([str(backup), *cells])
    return Table(
        "backups",
        "How many a round should do without",
        f"{_SETTING}; `sync:backup=b`, batches of {BATCH}, held-out loss {TARGET:g}",
        rows,
        values,
        "trainers that a round does without",
        "",
        doubts_of(inside),
    )


def _named(k: int) -> str:
    return "1st" if k == 1 else f"{k}th"


def _share(seconds: list[float], limit: float) -> float:
    return sum(one <= limit for one in seconds) / len(seconds)


def _limits() -> list[float]:
    return [0.02 * 1.06**n for n in range(70)]
