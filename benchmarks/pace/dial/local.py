"""How many steps trainers should take by themselves, where values take time to travel.

Pure.
"""

from benchmarks.pace.dial.replay import Rule
from benchmarks.pace.dial.table import Table, doubts_of, told_s
from benchmarks.pace.dial.tuning import BATCH, GRID, PLAIN, TARGET, Place, tune
from paceline.forecast.job import forecast
from paceline.forecast.models import Network

STEPS = (1, 3, 10, 30, 100, 300, 800)
BATCHES = 6_400
ROUNDS = 40  # of four trainers: ten for each
PLACE = Place(
    4, "lognormal:0.05,0.1", network=Network(1e-3, 125e6), parameter_bytes=2_500_000
)


RATE, SECONDS = "records a second", "seconds to the loss"


def _rule(name: str, every: int) -> Rule:
    """The grid; a push of ``async`` is a sum, so that its rates are as much lower."""
    return PLAIN if name == "local" else Rule(tuple(rate / every for rate in GRID))


def steps(seeds: int, batches: int = BATCHES) -> Table:
    """Records a second and seconds to a loss, by steps between two exchanges."""
    rows = [
        ["steps", "local, records/s", "s to the loss", "async, records/s", "s to the loss"]
    ]
    values: dict[str, dict[str, float]] = {
        f"{name}, {what}": {} for what in (RATE, SECONDS) for name in ("local", "async")
    }
    inside = []
    for every in STEPS:
        cells = [str(every)]
        paces = {"local": f"local:{every}", "async": f"async:push={every},pull={every}"}
        for name, pace in paces.items():
            # Enough rounds for a rate: a job of two would end as it begins.
            going = forecast(PLACE.plan(pace, max(batches, ROUNDS * every), 0))
            tuned = tune(PLACE, pace, batches, seeds, _rule(name, every))
            seconds = values[f"{name}, {SECONDS}"][str(every)] = tuned.median("seconds")
            values[f"{name}, {RATE}"][str(every)] = going.records_per_second
            inside.append((pace, tuned.rate, tuned.is_inside))
            cells += [f"{going.records_per_second:,.0f}", told_s(seconds)]
        rows.append(cells)
    return Table(
        "local",
        "Steps between two exchanges",
        f"Four trainers, batches of {BATCH} that take 50 ms, a model of 2.5 MB over 1 "
        f"Gbit/s with 1 ms of latency; `local:h` and `async:push=h,pull=h`; held-out loss "
        f"{TARGET:g}; a push of `async` is a sum of gradients, and its rates are those of "
        f"the grid divided by h",
        rows,
        values,
        "steps between two exchanges",
        "",
        doubts_of(inside),
    )
