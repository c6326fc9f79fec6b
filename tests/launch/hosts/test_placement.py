"""Servers are spread, trainers go where cores are free, and who comes back comes home."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.ids import role_kind
from paceline.launch.hosts.placement import (
    FORGET_S,
    Capacity,
    HostRoom,
    WaitingRoles,
    place,
)

TWO_CORES = {f"host-{n}": HostRoom(2) for n in range(3)}
FULL = {"host-0": HostRoom(2, Capacity(0, 0)), "host-1": HostRoom(2, Capacity(1, None))}
MOST = st.none() | st.integers(0, 3)
ROOMS = st.lists(
    st.builds(HostRoom, st.integers(1, 8), st.builds(Capacity, MOST, MOST)), min_size=1
).map(lambda rooms: {f"host-{n}": room for n, room in enumerate(rooms)})
ROLES = st.lists(
    st.builds("{}-{}".format, st.sampled_from(["server", "trainer"]), st.integers(0, 6))
)


def placed(roles: list[str], rooms: dict[str, HostRoom]) -> dict[str, str]:
    """Where roles are when one after the other has found its place, if there was one."""
    at = {"coordinator": next(iter(rooms))}
    for role in roles:
        if (host := place(role, at, rooms)) is not None:
            at[role] = host
    return at


def on(at: dict[str, str], kind: str) -> Counter[str]:
    """How many roles of a kind each host has."""
    return Counter(host for role, host in at.items() if role_kind(role) == kind)


def test_the_coordinator_is_with_the_launcher_whatever_that_takes() -> None:
    rooms = {"host-0": HostRoom(1, Capacity(0, 0)), "host-1": HostRoom(64)}

    assert place("coordinator", {}, rooms) == "host-0"


def test_servers_are_spread_over_all_hosts_before_two_share_one() -> None:
    at = placed([f"server-{n}" for n in range(3)], TWO_CORES)

    assert {at[f"server-{n}"] for n in range(3)} == set(TWO_CORES)


def test_trainers_are_spread_by_cores() -> None:
    at = placed(
        [f"trainer-{n}" for n in range(5)], {"host-0": HostRoom(2), "host-1": HostRoom(8)}
    )

    assert [at[f"trainer-{n}"] for n in range(5)].count("host-1") == 4


def test_one_trainer_goes_where_no_server_is() -> None:
    at = placed(["server-0", "server-1", "trainer-0"], TWO_CORES)

    assert at["trainer-0"] not in {at["server-0"], at["server-1"]}


@pytest.mark.parametrize("role", ["server-1", "trainer-3"])
def test_who_comes_back_comes_home(role: str) -> None:
    at = {role: "host-2", "server-0": "host-2", "server-2": "host-2"}

    assert place(role, at, TWO_CORES) == "host-2"


def test_a_trainer_comes_back_where_a_machine_has_joined_and_a_server_does_not() -> None:
    at = {f"{kind}-{n}": "host-2" for kind in ("trainer", "server") for n in range(2)}

    assert place("trainer-1", at, TWO_CORES) == "host-0"
    assert place("server-1", at, TWO_CORES) == "host-2"


@given(ROLES, ROOMS)
def test_while_no_machine_joins_whoever_comes_back_comes_home(
    roles: list[str], rooms: dict[str, HostRoom]
) -> None:
    at = placed(roles, rooms)

    for role, host in at.items():
        assert place(role, at, rooms) == host


def test_what_was_on_a_lost_host_goes_to_another() -> None:
    at = {"server-0": "host-1", "trainer-0": "host-0"}

    assert place("server-0", at, {"host-0": HostRoom(2), "host-2": HostRoom(2)}) == "host-2"


@given(ROLES, ROOMS)
def test_no_host_has_more_than_it_takes_and_nobody_waits_while_one_has_room(
    roles: list[str], rooms: dict[str, HostRoom]
) -> None:
    at = placed(roles, rooms)

    for kind in ("server", "trainer"):
        takes = {host: room.capacity.most(kind) for host, room in rooms.items()}
        has = on(at, kind)
        is_full = {h: most is not None and has[h] == most for h, most in takes.items()}
        assert all(most is None or has[host] <= most for host, most in takes.items())
        waiting = [r for r in roles if role_kind(r) == kind and r not in at]
        assert not waiting or all(is_full.values())


@given(ROLES, ROOMS)
def test_a_host_has_two_servers_more_than_another_only_if_that_one_is_full(
    roles: list[str], rooms: dict[str, HostRoom]
) -> None:
    has = on(placed(roles, rooms), "server")

    most = max(has[host] for host in rooms)
    for host, room in rooms.items():
        assert has[host] >= most - 1 or has[host] == room.capacity.servers


@given(ROLES, ROOMS)
def test_the_same_hosts_and_roles_have_the_same_places(
    roles: list[str], rooms: dict[str, HostRoom]
) -> None:
    at = placed(roles, rooms)

    assert placed(roles, rooms) == at
    assert placed(roles + roles, rooms) == at


def test_who_waits_for_room_is_told_with_what_for_and_since_when() -> None:
    waiting = WaitingRoles()
    for role in ("server-1", "server-2"):
        waiting.note(role, 10.0)

    assert waiting.tell(FULL, 10.0) == (
        "waiting for 0 s to start server-1, server-2: no machine has room for "
        "more (host-0 takes at most 0 servers, at most 0 trainers; host-1 takes at most 1 "
        "server): start paceline host on another machine, or on one that takes more "
        "(--servers, --trainers)"
    )
    waiting.note("server-1", 11.0)
    assert waiting.tell(FULL, 11.0) is None
    assert "for 1 s to start server-1, server-2: " in waiting.standing(FULL, 11.0)
    waiting.found("server-2")
    assert "for 1 s to start server-1: " in str(waiting.tell(FULL, 11.0))
    assert waiting.note("server-1", 80.0) == 70.0
    assert "for 70 s to start server-1: " in str(waiting.tell(FULL, 80.0))


def test_of_many_that_wait_and_many_machines_the_first_few_are_named() -> None:
    waiting = WaitingRoles()
    for number in range(2, 10):
        waiting.note(f"trainer-{number}", 10.0)
    rooms = {f"host-{number}": FULL["host-1"] for number in range(6)}

    told = str(waiting.tell(rooms, 10.0))

    assert "to start trainer-2, trainer-3, trainer-4, trainer-5 and 4 more: no mach" in told
    assert "; host-3 takes at most 1 server and 2 more): start" in told


def test_who_is_not_wanted_any_more_does_not_wait() -> None:
    waiting = WaitingRoles()
    waiting.note("trainer-5", 10.0)

    assert waiting.tell(FULL, 10.1 + FORGET_S) is None
    assert not waiting.standing(FULL, 10.1 + FORGET_S)
    assert waiting.note("trainer-5", 100.0) == 0.0
