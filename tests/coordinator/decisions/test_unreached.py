"""A trainer and a server are both heard, and do not reach each other."""

from typing import Any

from paceline.config import Async
from paceline.coordinator.durable.outcomes import ServerLost, TrainerLost
from paceline.ids import LAUNCHER
from paceline.messages.shared import Refusal
from paceline.messages.trainer import Beat, JoinTrainer
from paceline.messages.watching import LauncherReport

TIMEOUT_S = 10.0


def opened(make_job: Any, trainers: int) -> Any:
    job = make_job(pace=Async())
    names = [f"trainer-{n}" for n in range(trainers)]
    job.open(*names)
    for name in names:
        job.lease(name)
    return job


def beat(job: Any, seconds: float, **unreached: tuple[str, ...]) -> None:
    """Let time pass, while all tell whom they do not reach."""
    for _ in range(int(seconds)):
        for trainer in list(job.state.durable.trainers):
            away = unreached.get(trainer.replace("-", "_"), ())
            job.get(trainer, Beat(**job.who(trainer), clock=0, unreached=away))
        job.wait(1.0)


def orders(job: Any) -> Any:
    return job.get(LAUNCHER, LauncherReport())


def test_a_trainer_cut_off_from_one_server_is_lost_and_nobody_goes_back(
    make_job: Any,
) -> None:
    job = opened(make_job, 3)
    beat(job, TIMEOUT_S - 1, trainer_1=("server-0",))
    assert orders(job).replace == {}
    beat(job, 2, trainer_1=("server-0",))
    [lost] = [one for one in job.outcomes if isinstance(one, TrainerLost)]
    assert (lost.trainer, lost.kind) == ("trainer-1", "unreached")
    told = orders(job)
    assert (told.replace, set(told.unreached)) == ({"trainer-1": 1}, {"trainer-1"})
    assert job.state.durable.timeline == 0
    # Until it is killed it may join again; then its successor replaces it.
    job.join("trainer-1")
    assert orders(job).replace == {"trainer-1": 1}


def test_a_server_that_most_trainers_do_not_reach_is_lost_itself(make_job: Any) -> None:
    job = opened(make_job, 3)
    away = ("server-1",)
    beat(job, TIMEOUT_S + 1, trainer_0=away, trainer_2=away)
    [lost] = [one for one in job.outcomes if isinstance(one, ServerLost)]
    assert (lost.server, lost.kind) == ("server-1", "unreached")
    assert not [one for one in job.outcomes if isinstance(one, TrainerLost)]
    assert "server-1" in orders(job).unreached


def test_a_server_that_is_reached_again_in_time_costs_nothing(make_job: Any) -> None:
    job = opened(make_job, 2)
    beat(job, TIMEOUT_S - 2, trainer_1=("server-0",))
    beat(job, 1)
    beat(job, TIMEOUT_S - 2, trainer_1=("server-0",))
    assert {"TrainerLost", "ServerLost"}.isdisjoint(job.names())


def test_who_wakes_up_when_its_successor_is_there_does_not_displace_it(
    make_job: Any,
) -> None:
    job = opened(make_job, 1)
    lost = job.trainers["trainer-0"]
    job.lose("trainer-0")
    successor = JoinTrainer(trainer="trainer-0", pid=2, host="there")
    joined = job.get("trainer-0", successor)
    late = JoinTrainer(trainer="trainer-0", pid=1, host="here", previous=lost)
    refused = job.get("trainer-0", late)
    assert isinstance(refused, Refusal)
    assert refused.kind == "broken"
    assert "trainer-0 is process 2 on there since" in refused.text
    assert job.state.durable.trainers == {"trainer-0": joined.incarnation}
