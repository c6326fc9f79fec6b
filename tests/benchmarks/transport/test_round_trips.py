"""A step waits for few round trips, one behind the other, where links have a delay."""

import contextlib
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.harness.apart import APART, WITHIN_TLS
from benchmarks.harness.bench import Run
from benchmarks.transport.round_trips import (
    JOBS,
    Pair,
    Timed,
    compare_losses,
    echo_ms,
    figures_of,
    measure,
    ratios_of,
    run_once,
)

TRIP_S = 0.04  # what a step computes is a fraction of it, also on a busy machine
BUSY = 0.8  # round trips that others' load may look like
NEAR, FAR = Timed(2.0, 3.0, 1.0, 0.5, [1.0]), Timed(43.0, 64.5, 42.0, 21.0, [1.0])


def test_round_trips_are_what_a_delay_adds_in_empty_round_trips_of_the_same_link() -> None:
    pair = Pair(NEAR, FAR)
    figures = {f.what: f for f in figures_of({"async": [pair]}, 20.0)}
    assert figures["round trips of a step"].values == (2.0,)
    assert figures["the same, over all steps"].values == (3.0,)
    assert figures["an empty round trip with 20 ms"].values == (21.0,)


def test_rounds_may_take_one_more() -> None:
    pair = Pair(NEAR, FAR._replace(step_ms=2.0 + 2.5 * 20.5))
    ratios = ratios_of(figures_of({"async-rows": [pair], "sync-rows": [pair]}, 20.0))
    assert [(r.ours, r.value, r.goal, r.verdict) for r in ratios] == [
        ("async-rows", 2.5, "<= 2", "missed"),
        ("sync-rows", 2.5, "<= 3", "reached"),
    ]


def test_a_delay_that_changes_what_is_learned_is_told() -> None:
    same, other = Pair(NEAR, FAR), Pair(NEAR, FAR._replace(losses=[1.5]))
    assert compare_losses({"sync": [same]})[0]
    assert compare_losses({"sync": [same], "async": [same, other]}) == (
        False,
        "with the delay every step has the same loss as without: no: async",
    )


def test_an_empty_round_trip_takes_both_ways() -> None:
    assert echo_ms(TRIP_S / 2) >= 1e3 * TRIP_S


def assert_few(timed: Timed, wanted: float) -> None:
    """The fastest step: others' load makes steps longer, and none shorter."""
    assert 1 <= timed.least_ms / (1e3 * TRIP_S) < wanted + BUSY


@pytest.mark.slow
@pytest.mark.system
def test_a_step_waits_once_and_in_rounds_twice(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        run = Run(Namespace(times=1), {}, tmp_path, stack)
        forks = run.forks(APART, WITHIN_TLS)
        for name, wanted in (("async", 1), ("sync", 2)):
            assert_few(run_once(JOBS[name], 12, TRIP_S, run.place(), forks), wanted)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.system
def test_so_it_is_in_all_jobs_and_they_learn_what_they_do_without_a_delay(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as stack:
        run = Run(Namespace(times=1), {}, tmp_path, stack)
        found = measure(run, tuple(JOBS), steps=12, trip_s=TRIP_S)
    assert compare_losses(found)[0]
    for name, [pair] in found.items():
        in_rounds = 2.5 if JOBS[name].are_all_far else 2  # the word goes on to servers
        assert_few(pair.far, in_rounds if JOBS[name].pace == "sync" else 1)
