"""What the journal and exactly-once bookkeeping cost: the CTR job with them and without.

::

    python -m benchmarks bookkeeping [--times 5]

The job of `benchmarks ctr`, one trainer and one server, `async`. Without: the coordinator
writes no journal and servers do not look at windows (`ctr.bookkeeping_off`); all
else, every message too, is the same. Runs are interleaved, each in processes of its own,
and held-out losses are compared first. On a machine that others use as well, rates differ
by more than 3 % from run to run; the processor time of all processes of the job, which is
compared too, differs less.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.ctr import compare as ctr
from benchmarks.harness.bench import TIMES, Found, Run, bench
from benchmarks.harness.figures import Figure, Measure, compared, measured, medians

WITH, WITHOUT = "with", "without"
OFF = "benchmarks.ctr.bookkeeping_off_now"

Runs = Mapping[str, Sequence[ctr.Trained]]  # {with or without: runs}


def compare_losses(runs: Runs) -> tuple[bool, str]:
    """Whether both have learned the same, and what."""
    losses = medians(runs, lambda run: run.loss)
    is_equal = abs(losses[WITH] / losses[WITHOUT] - 1) <= ctr.LOSS_WITHIN
    told = f"held-out loss {losses[WITH]:.4f} with, {losses[WITHOUT]:.4f} without"
    return is_equal, told


def figures_of(runs: Runs) -> list[Figure]:
    """Records per second, then processor time; without bookkeeping is the floor."""
    used = "ms of all processors, of a step"
    return measured(
        runs,
        Measure("journal and exactly-once", "records/s", lambda run: run.rate, True),
        Measure("their processor time", used, lambda run: sum(run.cpu_ms.values())),
        who=lambda side: f"paceline, {side}",
        kind=lambda side: "ours" if side == WITH else "floor",
    )


@bench("bookkeeping", TIMES, *ctr.STEPS)
def main(run: Run) -> Found:
    """Measure with and without, who is first taking turns."""
    plan, data = ctr.plan_of(run.flags), run.folder / "data.npz"
    ctr.write_data(plan, data)

    def once(side: str, place: Path) -> ctr.Trained:
        preloaded = () if side == WITH else (OFF,)
        return ctr.run_once(ctr.OURS, plan, data, place, run, preloaded)

    runs = run.interleaved(
        (WITH, WITHOUT),
        once,
        lambda side, trained: f"{side}: {trained.rate:,.0f} records/s",
        is_turned=True,
    )
    is_equal, told = compare_losses(runs)
    figures = figures_of(runs)
    rate, bare_rate, spent, bare_spent = figures
    ratios = [compared(rate, bare_rate, "journal"), compared(spent, bare_spent)]
    more = {"plan": plan._asdict()}
    return Found(figures, ratios, told, is_equal, more=more)
