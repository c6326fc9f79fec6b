"""Which pace comes first to a loss, beside which slowness; what a bound on clocks costs.

Pure.
"""

from collections.abc import Sequence

from benchmarks.pace.dial.table import Table, doubts_of, told, told_s
from benchmarks.pace.dial.tuning import BATCH, GRID, TARGET, Place, Tuned, tune
from paceline.forecast.job import forecast
from paceline.forecast.models import Pauses

BATCHES = 4_000  # of all trainers, at most
PLACES = {  # {what is slow: where}
    "nobody": Place(4, "lognormal:0.05,0.1"),
    "each step, by chance": Place(4, "straggler:0.05,4,0.2"),
    "one trainer": Place(4, "slow:0.05,4,1"),
    "pauses": Place(4, "lognormal:0.05,0.1", Pauses(0.01, 1.0)),
}
PACES = (
    "sync",
    "sync:backup=1",
    "ssp:0",
    "ssp:2",
    "ssp:8",
    "ssp:32",
    "async",
    "async:scale=1",
    "local:8",
)
STALENESS = (0, 1, 2, 4, 8, 16, 32)
BESIDE = Place(8, "straggler:0.05,4,0.2")
LOCKSTEP = "sync"


def time_to_loss(
    seeds: int,
    paces: Sequence[str] = PACES,
    batches: int = BATCHES,
) -> Table:
    """Seconds to a loss by pace and by what is slow."""
    found: dict[str, dict[str, Tuned]] = {
        pace: {what: tune(place, pace, batches, seeds) for what, place in PLACES.items()}
        for pace in paces
    }
    rows = [["", *PLACES]]
    for pace, tuned in found.items():
        cells = [pace]
        for what, one in tuned.items():
            seconds = one.median("seconds")
            share = seconds / found[LOCKSTEP][what].median("seconds")
            cells.append(f"{told_s(seconds)} s ({share:.2f})")
        rows.append(cells)
    inside = [
        (f"{pace}, {what}", one.rate, one.is_inside)
        for pace, tuned in found.items()
        for what, one in tuned.items()
    ]
    return Table(
        "slowness",
        "Seconds to the same loss, by what is slow",
        f"Four trainers, batches of {BATCH} that take 50 ms; held-out loss {TARGET:g}; in "
        f"brackets, times `sync`. Slow is: nobody; each step 4 times, by chance of 0.2; "
        f"one trainer 4 times, for ever; a pause of a second before one step in a hundred",
        rows,
        {
            pace: {what: one.median("seconds") for what, one in tuned.items()}
            for pace, tuned in found.items()
        },
        "what is slow",
        "s",
        doubts_of(inside),
    )


def bound(seeds: int, batches: int = BATCHES) -> Table:
    """What a bound on clocks costs in batches and gains in waiting."""
    paces = {str(s): f"ssp:{s}" for s in STALENESS} | {"none": "async"}
    rows = [["bound", "computes", "waits", "s a batch", "batches", "s to the loss", "rate"]]
    values: dict[str, dict[str, float]] = {
        "s a batch, of a trainer": {},
        "batches to the loss": {},
        "seconds to the loss": {},
    }
    inside = []
    for name, pace in paces.items():
        going = forecast(BESIDE.plan(pace, batches, 0))
        tuned = tune(BESIDE, pace, batches, seeds)
        inside.append((pace, tuned.rate, tuned.is_inside))
        numbers = (going.step_s, tuned.median("batches"), tuned.median("seconds"))
        for series, value in zip(values.values(), numbers, strict=True):
            series[name] = value
        computing = going.spells["computing"]
        rows.append(
            [
                name,
                f"{computing:.0%}",
                f"{1 - computing:.0%}",
                f"{going.step_s:.3f}",
                told(numbers[1]),
                told_s(numbers[2]),
                f"{tuned.rate:.3g}",
            ]
        )
    return Table(
        "bound",
        "What a bound on clocks gives and takes",
        f"Eight trainers, each step 4 times slower by chance of 0.2; `ssp` with the "
        f"bound, `async` without one; held-out loss {TARGET:g}; the best of {len(GRID)} "
        f"rates each",
        rows,
        values,
        "bound on clocks",
        "",
        doubts_of(inside),
    )
