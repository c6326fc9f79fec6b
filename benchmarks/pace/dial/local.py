"""How many steps trainers should take by themselves, where values take time to travel.

Pure.
"""

from benchmarks.pace.dial.table import Table, doubts_of, told
from benchmarks.pace.dial.tuning import BATCH, TARGET, Place, tune
from paceline.simulate.forecast.job import forecast
from paceline.simulate.forecast.models import Network

STEPS = (1, 3, 10, 30, 100, 300, 800)
BATCHES = 6_400
PLACE = Place(
    4, "lognormal:0.05,0.1", network=Network(1e-3, 125e6), parameter_bytes=2_500_000
)


def steps(seeds: int, batches: int = BATCHES) -> Table:
    """Records a second and seconds to a loss, by steps between two exchanges."""
    rows = [
        ["steps", "local, records/s", "s to the loss", "async, records/s", "s to the loss"]
    ]
    values: dict[str, dict[str, float]] = {"local": {}, "async": {}}
    inside = []
    for every in STEPS:
        cells = [str(every)]
        paces = {"local": f"local:{every}", "async": f"async:push={every},pull={every}"}
        for name, pace in paces.items():
            going = forecast(PLACE.plan(pace, batches, 0))
            tuned = tune(PLACE, pace, batches, seeds)
            seconds = values[name][str(every)] = tuned.median("seconds")
            inside.append((pace, tuned.rate, tuned.is_inside))
            cells += [f"{going.records_per_second:,.0f}", told(seconds)]
        rows.append(cells)
    return Table(
        "local",
        "Steps between two exchanges",
        f"Four trainers, batches of {BATCH} that take 50 ms, a model of 2.5 MB over 1 "
        f"Gbit/s with 1 ms of latency; `local:h` and `async:push=h,pull=h`; held-out loss "
        f"{TARGET:g}",
        rows,
        values,
        "steps between two exchanges",
        "seconds to the loss",
        doubts_of(inside),
    )
