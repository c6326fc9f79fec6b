import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.model.schedules import Schedules
from tests.trainer.fake_job import FakeJob


def optimizer_of(*rates: float) -> torch.optim.Optimizer:
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups)


def rates_of(optimizer: torch.optim.Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


def test_every_group_follows_from_the_rate_that_it_began_with() -> None:
    optimizer, schedules = optimizer_of(1.0, 0.5), Schedules()
    schedules.add(optimizer, lambda records: 1 - records / 100)
    assert rates_of(optimizer) == [1.0, 0.5]
    schedules.set_rates(20)
    schedules.set_rates(60)
    assert rates_of(optimizer) == pytest.approx([0.4, 0.2])
    schedules.set_rates(20)  # the job has gone back to a cut
    assert rates_of(optimizer) == pytest.approx([0.8, 0.4])


def test_a_factor_is_asked_once_for_the_same_records() -> None:
    asked: list[int] = []
    schedules = Schedules()
    schedules.add(optimizer_of(1.0), lambda records: float(asked.append(records) is None))
    for records in (0, 5, 5, 5, 7):
        schedules.set_rates(records)
    assert asked == [0, 5, 7]


def test_an_optimizer_follows_one_schedule() -> None:
    optimizer, schedules = optimizer_of(1.0), Schedules()
    schedules.add(optimizer, lambda _: 1.0)
    with pytest.raises(UsageError, match="follows another one already"):
        schedules.add(optimizer, lambda _: 1.0)


@pytest.mark.parametrize("factor", [-0.1, float("nan"), float("inf"), None, "1"])
def test_a_factor_that_is_no_rate_is_an_error_that_shows_it(factor: object) -> None:
    schedules = Schedules()
    with pytest.raises(UsageError, match="expected a factor >= 0 for 0 records, got"):
        schedules.add(optimizer_of(1.0), lambda _: factor)  # type: ignore[arg-type, return-value]  # as users do


def schedulers() -> dict[str, object]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    named = torch.optim.lr_scheduler
    return {
        "steps": named.StepLR(optimizer, 3),
        "plateau": named.ReduceLROnPlateau(optimizer),
    }


@pytest.mark.parametrize("name", ["steps", "plateau"])
def test_a_torch_scheduler_of_several_trainers_is_warned_of_once(
    job: FakeJob, name: str
) -> None:
    job.trainers = 3
    with job.session() as session:
        told = "if it is stepped with each batch, .* 3 times too slowly; once an epoch is"
        with pytest.warns(StepWarning, match=told):
            session.track(**{name: schedulers()[name]})
        session.track(another=schedulers()["steps"])  # a warning would be an error


def test_with_one_trainer_a_torch_scheduler_is_tracked_as_it_is(job: FakeJob) -> None:
    with job.session() as session:
        session.track(**schedulers())


def test_what_counts_no_steps_is_not_warned_of(job: FakeJob) -> None:
    job.trainers = 3
    with job.session() as session:
        session.track(scaler=torch.amp.GradScaler("cpu"))
