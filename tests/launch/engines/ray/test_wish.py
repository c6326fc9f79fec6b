"""How many hosts are asked of a Ray cluster, and what each takes."""

import pytest

from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.engines.ray.wish import (
    RayWish,
    actor_options,
    asked_hosts,
    parse_resources,
)


def names(wish: RayWish, machines: int, **config: int) -> list[str]:
    asked = asked_hosts(wish, JobConfig(run="r", **config), machines)
    return [host.name for host in asked]


def test_servers_have_a_host_a_machine_and_trainers_one_each() -> None:
    found = names(RayWish(), 2, servers=3, trainers=1, most_trainers=2)

    assert found == ["servers-0", "servers-1", "trainers-0", "trainers-1"]


def test_a_host_takes_several_trainers_and_what_they_take_together() -> None:
    wish = RayWish.of(2, "CPU=3,GPU=0.5,spot=1", is_uploaded=True)
    config = JobConfig(run="r", trainers=3, most_trainers=5)

    hosts = [host for host in asked_hosts(wish, config, 9) if not host.has_servers]

    assert len(hosts) == wish.num_trainer_hosts(5) == 3
    assert wish.num_trainer_hosts(3) == 2
    assert hosts[0].words == ("--servers", "0", "--trainers", "2")
    assert actor_options(hosts[0].resources) == {
        "num_cpus": 6.0,
        "num_gpus": 1.0,
        "resources": {"spot": 2.0},
    }
    assert hosts[0].threads == 3, "of one trainer"


def test_there_is_a_host_for_servers_where_no_machine_has_room_yet() -> None:
    assert names(RayWish(), 0, servers=2) == ["servers-0", "trainers-0"]


def test_the_wish_is_said_again_for_the_run_that_goes_on() -> None:
    assert RayWish().options() == ["--engine", "ray"]
    wish = RayWish.of(2, "CPU=2,GPU=1", is_uploaded=False)
    assert wish.options() == [
        *("--engine", "ray", "--trainers-per-host", "2"),
        *("--trainer-resources", "CPU=2,GPU=1", "--no-upload"),
    ]
    exact = RayWish.of(1, "CPU=0.5,memory=17179869184", is_uploaded=True)
    assert exact.options()[-1] == "CPU=0.5,memory=17179869184"


@pytest.mark.parametrize("text", ["", "CPU", "CPU=", "CPU=0", "CPU=nan", "=1", "A=1,A=2"])
def test_resources_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as CPU=2,GPU=1"):
        parse_resources(text)
