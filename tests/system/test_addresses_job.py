"""A job over machines whose addresses are not the simple case counts exactly."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from paceline.testing.machines import Machines
from paceline.testing.relay import Relay
from tests.system.hosts import HostedJob, within

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
SHORT = ("--records", "1600", "--epochs", "1")
OPTIONS = ("--trainers", "3", "--servers", "2", "--await-hosts", "2")
PORTS = range(7100, 7106)
RANGE = ("--ports", f"{PORTS[0]}-{PORTS[-1]}")

Begin = Callable[..., HostedJob]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[HostedJob] = []

    def one(*options: str, **more: object) -> HostedJob:
        begun.append(HostedJob(tmp_path, *OPTIONS, *options, script=SHORT, **more))
        return begun[-1]

    yield one
    for job in begun:
        job.close()


@pytest.fixture
def three() -> Iterator[Machines]:
    with Machines(3) as made:
        yield made


@pytest.mark.usefixtures("needs_machines")
def test_machines_of_ipv6_alone_and_a_range_of_ports(begin: Begin) -> None:
    with Machines(2, ipv6_only=True) as machines:
        listen = ("--listen", ":7070", "--network", "eth0")
        job = begin(*listen, *RANGE, machines=machines)
        assert job.address == f"[{machines[0].ipv6}]:7070"
        agent = job.host("--network", "fd00::/8", *RANGE)

        status = within(90.0, "both hosts serve", lambda: served(job, machines))
        assert job.end()["exact"]
        assert agent.wait(10.0) == 0
        ports = {int(address.rpartition(":")[2]) for address in status}
        assert ports <= set(PORTS)
        assert f"host-1 has joined: agent-1, tcp:[{machines[1].ipv6}]:71" in job.said()


def served(job: HostedJob, machines: Machines) -> set[str]:
    """Addresses of servers, once each machine has one."""
    found = {
        process["address"]
        for process in job.status().get("processes", ())
        if process["role"] == "server" and process["address"]
    }
    return found if all(any(m.address in one for one in found) for m in machines) else set()


@pytest.mark.usefixtures("needs_machines")
def test_a_launcher_behind_forwarded_ports(begin: Begin, three: Machines) -> None:
    launcher, host, between = three
    with contextlib.ExitStack() as relays:
        for port in (7070, *PORTS):
            target, listen = (launcher.ipv4, port), (between.ipv4, port)
            relays.enter_context(Relay(target, listen, machine=between))
        told = ("--network", "eth0", "--advertise", between.ipv4)
        job = begin("--listen", ":7070", *told, *RANGE, machines=three)
        assert job.address == f"{between.ipv4}:7070"
        agent = job.host()

        assert job.end()["exact"]
        assert agent.wait(10.0) == 0
        assert f"host-1 has joined: agent-1, tcp:{host.ipv4}:" in job.said()


@pytest.mark.usefixtures("needs_machines")
def test_who_advertises_what_does_not_lead_to_it_is_refused_with_both_addresses(
    begin: Begin, three: Machines
) -> None:
    job = begin(machines=three)

    job.host("--advertise", three[2].ipv4)  # a machine at which nobody listens

    assert job.agents[0].wait(30.0) == 2
    said = job.said("agent-1")
    assert f"says that it is reached at tcp:{three[2].ipv4}:" in said
    assert f"from here ({three[0].ipv4}) it is not" in said
    assert "with --advertise" in said


def test_machines_are_found_by_name(begin: Begin) -> None:
    name = socket.gethostname()
    own = {one.address for all_ in psutil.net_if_addrs().values() for one in all_}
    with contextlib.suppress(OSError):
        own &= {str(found[4][0]) for found in socket.getaddrinfo(name, 0)}
    if not own or own <= {"127.0.0.1", "127.0.1.1", "::1"}:
        pytest.skip("this machine is not found by its name")
    job = begin("--listen", ":0", "--advertise", name)
    assert job.address.startswith(f"{name.lower()}:")

    agent = job.host("--advertise", name)

    assert job.end()["exact"]
    assert agent.wait(10.0) == 0
    assert f"host-1 has joined: agent-1, tcp:{name.lower()}:" in job.said()
