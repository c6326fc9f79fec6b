"""Where a trainer's door may be."""

from pathlib import Path

from paceline.launch.job.addresses import MOST_DOORS, door_addresses
from paceline.launch.job.environment import Place
from paceline.transport.address import MAX_PATH_BYTES, parse_address


def place(
    coordinator: str, sockets: str = "/run/paceline-x", role: str = "trainer-7"
) -> Place:
    return Place("run", role, Path("job"), coordinator, Path(sockets), 1)


def test_a_door_lies_beside_the_jobs_other_sockets() -> None:
    addresses = door_addresses(place("unix:/run/paceline-x/coordinator.sock"))
    assert addresses[:2] == [
        "unix:/run/paceline-x/trainer-7.sock",
        "unix:/run/paceline-x/trainer-7.1.sock",
    ]
    assert len(addresses) == MOST_DOORS


def test_the_longest_door_has_a_path_that_the_kernel_holds() -> None:
    sockets = "/" + "x" * 79
    found = door_addresses(place("unix:/c.sock", sockets, "trainer-999999"))
    assert all(len(one.removeprefix("unix:")) <= MAX_PATH_BYTES for one in found)
    assert all(str(parse_address(one)) == one for one in found)


def test_over_tcp_a_door_is_where_the_launcher_or_the_host_says() -> None:
    told = place("tcp:10.0.0.1:4711")._replace(address="tcp:10.0.0.2:7100-7199")
    assert door_addresses(told) == ["tcp:10.0.0.2:7100-7199"]
