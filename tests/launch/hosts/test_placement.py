"""Servers are spread, trainers go where cores are free, and who comes back comes home."""

import pytest

from paceline.launch.hosts.placement import place

TWO_CORES = {"host-0": 2, "host-1": 2, "host-2": 2}


def placed(roles: list[str], cores: dict[str, int]) -> dict[str, str]:
    """Where roles are when one after the other has found its place."""
    at = {"coordinator": next(iter(cores))}
    for role in roles:
        at[role] = place(role, at, cores)
    return at


def test_the_coordinator_is_with_the_launcher() -> None:
    assert place("coordinator", {}, {"host-0": 1, "host-1": 64}) == "host-0"


def test_servers_are_spread_over_all_hosts_before_two_share_one() -> None:
    at = placed([f"server-{n}" for n in range(3)], TWO_CORES)

    assert {at[f"server-{n}"] for n in range(3)} == set(TWO_CORES)


def test_trainers_are_spread_by_cores() -> None:
    at = placed([f"trainer-{n}" for n in range(5)], {"host-0": 2, "host-1": 8})

    assert [at[f"trainer-{n}"] for n in range(5)].count("host-1") == 4


def test_one_trainer_goes_where_no_server_is() -> None:
    at = placed(["server-0", "server-1", "trainer-0"], TWO_CORES)

    assert at["trainer-0"] not in {at["server-0"], at["server-1"]}


@pytest.mark.parametrize("role", ["server-1", "trainer-3"])
def test_who_comes_back_comes_home(role: str) -> None:
    at = {role: "host-2", "server-0": "host-2", "trainer-0": "host-2"}

    assert place(role, at, TWO_CORES) == "host-2"


def test_what_was_on_a_lost_host_goes_to_another() -> None:
    at = {"server-0": "host-1", "trainer-0": "host-0"}

    assert place("server-0", at, {"host-0": 2, "host-2": 2}) == "host-2"
