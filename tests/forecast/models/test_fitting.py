"""How long batches compute is read from what a real run has written."""

import itertools
import json
import math
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paceline.config import Async
from paceline.errors import UsageError
from paceline.forecast.fitting import fit
from paceline.forecast.job import forecast
from paceline.forecast.models import Deaths, draw_compute
from paceline.forecast.plan import Plan
from paceline.timing import ManualClock
from paceline.trainer.client.stopwatch import Stopwatch
from tests.forecast.models.means import mean_s

seconds = st.lists(st.floats(0.001, 10), min_size=2, max_size=21).map(sorted)


def line(
    trainer: str, batches: int, seconds: list[float], mean_s: float | None = None
) -> bytes:
    """Quantiles, and the mean; if it is left out, that of straight lines between them."""
    if mean_s is None:
        halves = [(one + other) / 2 for one, other in itertools.pairwise(seconds)]
        mean_s = sum(halves) / len(halves)
    told = {"t": 0.0, "event": "computed", "trainer": trainer, "batches": batches}
    return json.dumps({**told, "seconds": seconds, "mean_s": mean_s}).encode()


@example([(1, [1.0, 1.0, 1.0, 1.3394410457279553, 3.878332190724787])])  # rounds past it
@given(st.lists(st.tuples(st.integers(1, 99), seconds), min_size=1, max_size=5))
def test_what_is_fitted_lies_within_what_was_measured(
    told: list[tuple[int, list[float]]],
) -> None:
    fitted = fit([line("trainer-0", *one) for one in told], "events.jsonl").compute
    [own] = fitted.trainers
    assert own.seconds[0] >= min(s[0] for _, s in told)
    assert own.seconds[-1] <= max(s[-1] for _, s in told)


def test_trainers_stay_apart() -> None:
    lines = [line("trainer-1", 9, [4.0, 4.0]), line("trainer-0", 9, [1.0, 1.0])]
    fitted = fit(lines, "events.jsonl").compute
    assert [mean_s(own, 1) for own in fitted.trainers] == [1.0, 4.0]
    assert mean_s(fitted, 2) == 2.5


def test_a_line_counts_for_as_many_batches_as_it_is_of() -> None:
    lines = [line("trainer-0", 90, [1.0] * 21), line("trainer-0", 10, [2.0] * 21)]
    [own] = fit(lines, "events.jsonl").compute.trainers
    assert own.seconds.count(1.0) / len(own.seconds) == pytest.approx(0.9, abs=0.02)
    assert mean_s(own, 1) == pytest.approx(1.1, abs=0.05)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"event": "computed", "trainer"',
        b'{"t": 0, "event": "progress", "records": 1}',
        b'{"t": 0, "event": "computed", "trainer": "t", "batches": 1, "seconds": [1, 1]}',
        line("t", 1, [], 0.0),
        line("t", 1, [2, 1]),
    ],
)
def test_lines_that_tell_nothing_are_left_out(broken: bytes) -> None:
    fitted = fit([broken, line("trainer-0", 1, [1.0, 1.0])], "events.jsonl").compute
    assert mean_s(fitted, 1) == 1.0
    with pytest.raises(UsageError, match=r"events\.jsonl does not tell how long"):
        fit([broken], "events.jsonl")


def happened(t: float, event: str, **fields: object) -> bytes:
    return json.dumps({"t": t, "event": event, **fields}).encode()


COMPUTED = line("trainer-0", 1, [1.0, 1.0])


def test_the_longest_batch_of_a_line_is_a_pause_if_all_others_are_far_shorter() -> None:
    quick = [1.0] * 20
    paused = line("trainer-0", 100, [*quick, 6.0], mean_s=(99 + 6) / 100)
    fitted = fit([paused, line("trainer-0", 100, [*quick, 1.5])], "events.jsonl")
    assert fitted.pauses is not None
    assert fitted.pauses.probability == 1 / 200
    assert fitted.pauses.mean_s == pytest.approx(5.0)
    assert fitted.compute.trainers[0].seconds[-1] <= 1.5
    assert "pauses of 5 s before 0.50% of batches" in str(fitted)


def test_pauses_are_as_many_as_the_mean_says() -> None:
    random, taken = Random(0), list[float]()
    for _ in range(4000):
        pause_s = random.expovariate(1 / 3) if random.random() < 0.01 else 0.0
        taken.append(0.1 + pause_s)
    pauses = fit([told_of("trainer-0", taken)], "events.jsonl").pauses
    assert pauses is not None
    assert pauses.probability == pytest.approx(0.01, rel=0.3)
    assert pauses.probability * pauses.mean_s == pytest.approx(0.03, rel=0.3)


@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_the_slowest_of_eight_is_as_slow_as_it_was(sigma: float) -> None:
    random = Random(0)
    taken = [random.lognormvariate(math.log(0.1), sigma) for _ in range(4000)]
    [own] = fit([told_of("trainer-0", taken)], "events.jsonl").compute.trainers
    draw = draw_compute(own, 0, Random(1))
    drawn = [draw() for _ in range(4000)]
    for many in (1, 8):
        one, other = (_slowest_of(many, seconds) for seconds in (taken, drawn))
        assert one == pytest.approx(other, rel=0.06)


def told_of(trainer: str, taken: list[float]) -> bytes:
    """The line of a trainer whose batches took so long."""
    ascending = sorted(taken)
    seconds = [ascending[n * (len(taken) - 1) // 20] for n in range(21)]
    return line(trainer, len(taken), seconds, sum(taken) / len(taken))


def _slowest_of(many: int, seconds: list[float]) -> float:
    rounds = [max(seconds[n : n + many]) for n in range(0, len(seconds), many)]
    return sum(rounds) / len(rounds)


def test_slow_batches_that_are_many_are_no_pauses() -> None:
    fitted = fit([line("trainer-0", 100, [1.0] * 17 + [4.0] * 4)], "events.jsonl")
    assert fitted.pauses is None
    assert fitted.compute.trainers[0].seconds[-1] == 4.0


def test_a_life_is_from_joining_to_being_lost() -> None:
    lines = [
        happened(0, "TrainerJoined", trainer="trainer-0", incarnation=1),
        happened(0, "ServerJoined", server="server-0", incarnation=2),
        happened(40, "TrainerLost", trainer="trainer-0", incarnation=1, kind="crashed"),
        happened(44, "TrainerJoined", trainer="trainer-0", incarnation=3),
        happened(60, "ServerLost", server="server-0", incarnation=2, kind="silent"),
        happened(62, "ServerJoined", server="server-0", incarnation=4),
        happened(100, "progress", records=1),
        COMPUTED,
    ]
    lived_s = 40 + 60 + (100 - 44) + (100 - 62)
    assert fit(lines, "events.jsonl").deaths == Deaths(lived_s / 2, (4 + 2) / 2)


def test_who_leaves_or_makes_no_progress_has_not_died() -> None:
    lines = [
        happened(0, "TrainerJoined", trainer="trainer-0", incarnation=1),
        happened(40, "TrainerLost", trainer="trainer-0", incarnation=1, kind="expired"),
        happened(44, "TrainerJoined", trainer="trainer-0", incarnation=3),
        happened(90, "TrainerLeft", trainer="trainer-0", incarnation=3),
        COMPUTED,
    ]
    assert fit(lines, "events.jsonl").deaths is None


kinds = st.sampled_from(["TrainerJoined", "TrainerLost", "TrainerLeft", "ServerLost"])
roles = st.sampled_from(["trainer-0", "trainer-1"])


@given(st.lists(st.tuples(st.floats(0, 1e6), kinds, roles), max_size=20))
def test_a_log_with_lines_missing_makes_no_life_negative(
    told: list[tuple[float, str, str]],
) -> None:
    lines = [happened(t, name, trainer=role, kind="crashed") for t, name, role in told]
    deaths = fit([*lines, COMPUTED], "events.jsonl").deaths
    assert deaths is None or (deaths.mean_s > 0 and deaths.restart_s >= 0)


@pytest.mark.parametrize("step_s", [0.0, 0.03])
def test_what_a_step_costs_a_trainer_is_in_the_forecast(step_s: float) -> None:
    clock = ManualClock()
    stopwatch = Stopwatch(clock)
    for _ in range(100):
        stopwatch.begin()
        clock.work(0.1)  # forward and backward
        clock.advance(0.4)  # `step()`: waiting, and a little work of its own
        clock.work(step_s)
        stopwatch.waited_s += 0.4
        stopwatch.end()
    told = stopwatch.take()
    assert told is not None
    fitted = fit([line("trainer-0", told.batches, [*told.seconds], told.mean_s)], "here")
    plan = Plan(pace=Async(), compute=fitted.compute, steps=50, cut_every_s=0)
    assert forecast(plan).records_per_second == pytest.approx(1 / (0.1 + step_s), rel=0.02)
