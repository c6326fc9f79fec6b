"""What paceline is to reach, in one table: benchmarks ask it, the page draws it.

A goal is a number of times, ours against somebody else's in the same run, or an amount in
a unit of its own. One without a benchmark yet stands here too, and the page says so.

Pure.
"""

from typing import NamedTuple

TIMES = "times"  # the unit of a ratio
SLOW_STEPS = "sync, every fifth step of four trainers 4 times slower"
PUSH_PULL = "push-pull, as many trainers"
PLAIN = "the plain loop"
STREAM = "a plain Python stream"
ONE_SLOW = "sync, one of four trainers 4 times slower for ever"


class Goal(NamedTuple):
    """One thing that is wanted.

    Args:
        name: by which a benchmark asks for it.
        benchmark: whose records tell, by its name.
        what: is measured, in words.
        against: whom or what; empty for an amount.
        at_least: what is wanted; or else
        at_most: the same from the other side.
        unit: of what is wanted.
    """

    name: str
    benchmark: str
    what: str
    against: str
    at_least: float | None = None
    at_most: float | None = None
    unit: str = TIMES

    @property
    def words(self) -> str:
        """For people: ``at least 1.6 times``."""
        if self.at_least is not None:
            return f"at least {self.at_least:,g} {self.unit}"
        return f"at most {self.at_most:,g} {self.unit}"


TABLE = (
    Goal("ctr-1", "ctr", "CTR, records/s", "the best plain loop of one thread", 1.6),
    Goal("ctr-2", "ctr", "CTR, records/s", "the best plain loop of at most two", 1.2),
    Goal("tensorflow", "ctr_peers", "CTR, records/s", "TensorFlow", 3.0),
    Goal("paddle", "ctr_peers", "CTR, records/s", "Paddle", 5.0),
    Goal("dense-64", "dense", "a synchronous step, batches of 64", "DDP", 1.4),
    Goal("dense-8", "dense", "a synchronous step, batches of 8", "DDP", 1.6),
    Goal("over-embedded", "step_cost", "over, embedded", PLAIN, None, 300, "us"),
    Goal("over-sync", "step_cost", "over, run, sync", PLAIN, None, 900, "us"),
    Goal("over-async", "step_cost", "over, run, async", PLAIN, None, 400, "us"),
    Goal("over-pull-2", "step_cost", "over, run, async:pull=2", PLAIN, None, 250, "us"),
    Goal("over-embedded-tensors", "step_cost", "161, embedded", PLAIN, None, 1000, "us"),
    Goal("over-sync-tensors", "step_cost", "161, run, sync", PLAIN, None, 2000, "us"),
    Goal("lookups", "step_cost", "lookups, embedded", PLAIN, 1.0),
    Goal("jobs", "step_cost", "small jobs, plain steps of 1.2 ms", PLAIN, 0.8),
    Goal("over-jobs", "step_cost", "the others of them, over", PLAIN, None, 300, "us"),
    Goal("two-trainers", "two_trainers", "records/s of two, language", PLAIN, 1.7),
    Goal("start", "start", "to the first batch, embedded, over", PLAIN, None, 1.0, "s"),
    Goal("start-cpu", "start", "the same, of processors", PLAIN, None, 1.0, "s"),
    Goal("start-demo", "start", "to the first batch of the demo", "", None, 6.0, "s"),
    Goal("start-status", "start", "paceline status", "", None, 0.3, "s"),
    Goal("memory-sgd", "start", "memory at most, embedded, momentum", PLAIN, None, 3.0),
    Goal("memory-adam", "start", "memory at most, embedded, Adam", PLAIN, None, 2.7),
    Goal("round", "dense", "bookkeeping of a round", "", at_most=0.5, unit="ms"),
    Goal("small-pull-torch", "transport", "a pull of 4 KiB", "torch RPC", 8.0),
    Goal("small-pull-ray", "transport", "a pull of 4 KiB", "a Ray actor call", 20.0),
    Goal("large-pull", "transport", "a pull of 16 MiB", "memcpy", 0.85),
    Goal("large-push", "transport", "a push of 16 MiB", "memcpy", 0.6),
    Goal("far-large-push", "far", "a push of 16 MiB, --plain", STREAM, 0.8),
    Goal("far-large-pull", "far", "a pull of 16 MiB, --plain", STREAM, 0.8),
    Goal("trips-async", "round_trips", "in a row, async", "", at_most=2.0, unit="trips"),
    Goal("trips-sync", "round_trips", "in a row, sync", "", at_most=3.0, unit="trips"),
    Goal("journal", "bookkeeping", "records/s", "no journal, no exactly-once", 0.97),
    Goal("read-libsvm", "readers", "LIBSVM, 14 of 123", "", 100_000, unit="records/s"),
    Goal("read-csv", "readers", "CSV of 123 fractions", "", 30_000, unit="records/s"),
    Goal("read-parquet", "readers", "Parquet of 39", "", 300_000, unit="records/s"),
    Goal("codec", "codecs", "AUC lost to a codec", "", at_most=0.002, unit="AUC"),
    Goal("counts", "scaling", "round trips, bytes of a step", "one server", 0.91),
    Goal("stall-async", "recovery", "others' stall, async", "", at_most=0.2, unit="s"),
    Goal("stall-sync", "recovery", "others' stall, sync", "", at_most=2.0, unit="s"),
    Goal("leased-again", "recovery", "work leased again", "", at_most=1.0, unit="s"),
    Goal("coordinator", "recovery", "coordinator is back", "", at_most=3.0, unit="s"),
    Goal("server", "recovery", "server of 100 MB is back", "", at_most=5.0, unit="s"),
    Goal("ticks", "coordinator_scale", "ticks", "", 10_000, unit="a second"),
    Goal("leases", "coordinator_scale", "leases", "", 10_000, unit="a second"),
    Goal("queue", "coordinator_scale", "a lease of 1,000,000 tasks", "of 1,000", 0.5),
    Goal("crowd", "server_scale", "trainers served", "", 1000, unit="trainers"),
    Goal("slow", "server_scale", "growth by a slow reader", "", None, 70.4, "MiB"),
    Goal("ssp", "paces", "seconds to a loss, ssp:3", SLOW_STEPS, None, 0.75),
    Goal("backup", "paces", "seconds to a loss, sync:backup=1", ONE_SLOW, None, 0.5),
    Goal("guarded", "paces", "seconds to a loss, guarded async", ONE_SLOW, None, 0.45),
    Goal("diloco-loss", "diloco", "held-out loss at equal tokens", "sync", None, 1.02),
    Goal("diloco-bytes", "diloco", "bytes pushed, times fewer", "sync", 49.0),
    Goal("fragments-loss", "diloco", "the same in fragments", "whole", None, 1.01),
    Goal("delta-loss", "diloco", "the same with a codec", "without", None, 1.01),
    Goal("delta-bytes", "diloco", "the same, times fewer again", "without", 4.0),
    Goal("mf-rotation", "factorisation_models", "rotation, to an error", PUSH_PULL, 1.0),
    Goal("lda-rotation", "topics", "rotation, to a likelihood", PUSH_PULL, 1.0),
    Goal("libmf-1", "factorisation", "to an error, 1 trainer", "LIBMF, 1 thread", 0.5),
    Goal("libmf-2", "factorisation", "to an error, 2 trainers", "LIBMF, 2 threads", 0.5),
    Goal("tomotopy-1", "topics", "to a likelihood, 1 trainer", "tomotopy, 1 thread", 0.5),
    Goal("tomotopy-2", "topics", "the same, 2 trainers", "tomotopy, 2 threads", 0.5),
    Goal("kmeans-1", "clusters", "k-means, 1 trainer", "scikit-learn, 1 thread", 1.0),
    Goal("kmeans-2", "clusters", "k-means, 2 trainers", "scikit-learn, 2 threads", 1.0),
    Goal("logistic-1", "classification", "regression, 1 trainer", "scikit-learn", 1.0),
    Goal("logistic-2", "classification", "regression, 2 trainers", "scikit-learn", 1.0),
    Goal("predictions", "predictions", "a forecast", "the job", None, 15.0, "% off"),
    Goal("simulator", "simulator", "10,000 trainers x 100 steps", "", None, 150.0, "s"),
)


def wanted(name: str) -> Goal:
    """The goal of that name.

    Raises:
        KeyError: there is none; the message names all.
    """
    for goal in TABLE:
        if goal.name == name:
            return goal
    known = ", ".join(goal.name for goal in TABLE)
    raise KeyError(f"goal {name!r}: expected one of {known}")
