"""Numbers follow a schedule as torch's optimizers would on the same batches."""

import numpy as np
import pytest
import torch

from benchmarks.pace.dial import problem
from benchmarks.pace.dial.problem import Stream
from benchmarks.pace.dial.replay import Rule, replay
from benchmarks.pace.dial.schedule import Schedule, forced, schedule
from paceline.config import Async, DiLoCo, Pace, Sync, parse_pace
from paceline.forecast.models import Fixed
from paceline.forecast.plan import Plan

BATCH, SEED = 8, 5
RATES = (0.02, 0.1)


def losses(found: Schedule, pace: Pace, rule: Rule) -> np.ndarray:
    """The held-out losses after every update ``(updates, rates)``."""
    looks = replay(found, pace, rule, Stream(BATCH, SEED), SEED, every=1)
    return np.stack([look.losses for look in looks])


def plain(steps: list[list[int]], rate: float, momentum: float) -> list[float]:
    """The losses of a plain loop, each of whose steps is on these batches together."""
    values = torch.nn.Parameter(torch.from_numpy(problem.initial(SEED)))
    optimizer = torch.optim.SGD([values], lr=rate, momentum=momentum)
    stream, found = Stream(BATCH, SEED), []
    for batches in steps:
        now = values.detach().numpy()
        gradients = [stream.gradient(now, batch) for batch in batches]
        values.grad = torch.from_numpy(np.mean(gradients, axis=0))
        optimizer.step()
        found.append(problem.loss(values.detach().numpy()).item())
    return found


def plan(pace: str, trainers: int, steps: int) -> Plan:
    return Plan(trainers=trainers, pace=parse_pace(pace), steps=steps, compute=Fixed(0.05))


def test_a_lone_trainer_learns_as_the_plain_loop_does() -> None:
    found = losses(schedule(plan("async", 1, 8)), Async(), Rule(RATES))
    for n, rate in enumerate(RATES):
        assert found[:, n] == pytest.approx(
            plain([[b] for b in range(8)], rate, 0.9), rel=1e-4
        )


def test_lockstep_learns_as_one_process_on_the_joined_batch() -> None:
    made = schedule(plan("sync", 3, 5))
    steps = [
        [c.batch for one in u.contributions for c in one.computed] for u in made.updates
    ]
    found = losses(made, Sync(), Rule(RATES))
    assert found[:, 1] == pytest.approx(plain(steps, RATES[1], 0.9), rel=1e-4)


def test_local_steps_of_a_lone_trainer_are_the_plain_loop() -> None:
    found = losses(schedule(plan("local:4", 1, 8)), parse_pace("local:4"), Rule(RATES))
    wanted = plain([[b] for b in range(8)], RATES[0], 0.9)
    assert found[:, 0] == pytest.approx([wanted[3], wanted[7]], rel=1e-4)


def test_the_outer_step_is_that_of_torch() -> None:
    pace = DiLoCo(every=1, outer_lr=0.5, outer_momentum=0.8)
    found = losses(schedule(plan(str(pace), 1, 4)), pace, Rule(RATES[:1], momentum=0.0))
    values = torch.nn.Parameter(torch.from_numpy(problem.initial(SEED)))
    outer = torch.optim.SGD([values], lr=0.5, momentum=0.8, nesterov=True)
    stream, wanted = Stream(BATCH, SEED), []
    for batch in range(4):
        gradient = stream.gradient(values.detach().numpy(), batch)
        values.grad = torch.from_numpy(RATES[0] * gradient)
        outer.step()
        wanted.append(problem.loss(values.detach().numpy()).item())
    assert found[:, 0] == pytest.approx(wanted, rel=1e-4)


def test_an_old_gradient_is_that_of_old_values() -> None:
    rule = Rule(RATES[:1], momentum=0.0)
    first, second = losses(forced(2, 1), Async(), rule)[:, 0]
    stream, values = Stream(BATCH, SEED), problem.initial(SEED)
    once = values - RATES[0] * stream.gradient(values, 0)
    twice = once - RATES[0] * stream.gradient(values, 1)  # of the first values again
    assert [first, second] == pytest.approx(
        [problem.loss(once).item(), problem.loss(twice).item()], rel=1e-5
    )


def test_a_guard_divides_a_step_by_its_age() -> None:
    rule = Rule(RATES[:1], momentum=0.0)
    found = losses(forced(3, 2), parse_pace("async:scale=1"), rule)[:, 0]
    stream, begin = Stream(BATCH, SEED), problem.initial(SEED)
    values, wanted = begin, []
    for batch, age in enumerate((1, 1, 2)):
        values = values - RATES[0] / age * stream.gradient(begin, batch)
        wanted.append(problem.loss(values).item())
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_warm_up_begins_with_small_steps() -> None:
    rule = Rule(RATES[:1], momentum=0.0)
    first, *_ = losses(forced(3, 0), parse_pace("async:warmup=2"), rule)[:, 0]
    stream, begin = Stream(BATCH, SEED), problem.initial(SEED)
    small = begin - RATES[0] / 2 * stream.gradient(begin, 0)
    assert first == pytest.approx(problem.loss(small).item(), rel=1e-5)


def test_a_rate_that_is_far_too_high_ends_in_no_number_and_harms_no_other() -> None:
    found = losses(forced(60, 8), Async(), Rule((0.01, 1e6)))
    assert found[:, 0] == pytest.approx(losses(forced(60, 8), Async(), Rule((0.01,)))[:, 0])
    assert not found[-1, 1] < 10
