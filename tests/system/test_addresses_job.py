"""A job over machines whose addresses are not the simple case counts exactly."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from paceline.testing.machines import Machines
from paceline.testing.relay import Relay
from tests.system.hosts import HostedJob, within

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
SHORT = ("--records", "1600", "--epochs", "1")
SLOW = (*SHORT, "--sleep-ms", "400")  # long enough to be asked about
OPTIONS = ("--trainers", "3", "--servers", "2", "--await-hosts", "2")
PORTS = range(7100, 7106)
RANGE = ("--ports", f"{PORTS[0]}-{PORTS[-1]}")

# Before anything else in each process: names that this machine does not know.
RESOLVER = """
import socket

known, ask = {known}, socket.getaddrinfo


def getaddrinfo(name, *rest, **more):
    hosts = known.get(name, [name])
    return [one for host in hosts for one in ask(host, *rest, **more)]


socket.getaddrinfo = getaddrinfo
"""

Begin = Callable[..., HostedJob]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[HostedJob] = []

    def one(*options: str, script: Sequence[str] = SHORT, **more: object) -> HostedJob:
        begun.append(HostedJob(tmp_path, *OPTIONS, *options, script=script, **more))
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
        job = begin(*listen, *RANGE, script=SLOW, machines=machines)
        assert job.address == f"[{machines[0].ipv6}]:7070"
        agent = job.host("--network", "fd00::/8", *RANGE)

        hosts = [f"tcp:[{machine.ipv6}]:" for machine in machines]
        served = within(90.0, "both serve", lambda: serve(job, *hosts))
        assert job.end()["exact"]
        assert agent.wait(10.0) == 0
        assert {int(address.rpartition(":")[2]) for address in served} <= set(PORTS)
        assert f"host-1 has joined: agent-1, tcp:[{machines[1].ipv6}]:71" in job.said()


def serve(job: HostedJob, *hosts: str) -> set[str]:
    """Addresses of servers, once each of ``hosts`` has one; empty before."""
    found = {
        process["address"]
        for process in job.status().get("processes", ())
        if process["role"] == "server"
    }
    return found if all(host in " ".join(found) for host in hosts) else set()


@pytest.mark.usefixtures("needs_machines")
@pytest.mark.soak
def test_a_launcher_behind_forwarded_ports(begin: Begin, three: Machines) -> None:
    launcher, host, between = three
    with contextlib.ExitStack() as relays:
        for port in (7070, *PORTS):
            inside, outside = (launcher.ipv4, port), (between.ipv4, port)
            relays.enter_context(Relay(inside, outside, machine=between))
        told = ("--network", "eth0", "--advertise", between.ipv4)
        listen = ("--listen", ":7070", *told, *RANGE)
        job = begin(*listen, script=SLOW, machines=three)
        assert job.address == f"{between.ipv4}:7070"
        agent = job.host()

        hosts = [f"tcp:{machine.ipv4}:" for machine in (between, host)]
        within(90.0, "both serve", lambda: serve(job, *hosts))
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


@pytest.mark.usefixtures("needs_machines")
def test_machines_that_are_known_by_name_alone(
    begin: Begin, three: Machines, tmp_path: Path
) -> None:
    """IPv6 leads nowhere there, though the names have it."""
    known = {
        "launcher.test": ["fd00:dead::1", three[0].ipv4],
        "host.test": ["fd00:dead::2", three[1].ipv4],
    }
    (tmp_path / "sitecustomize.py").write_text(RESOLVER.format(known=known))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    named = {"PYTHONPATH": path, "PACELINE_ADVERTISE": "launcher.test"}
    job = begin("--listen", ":7070", machines=three, environment=named)
    assert job.address == "launcher.test:7070"

    agent = job.host(environment={**named, "PACELINE_ADVERTISE": "host.test"})

    assert job.end()["exact"]
    assert agent.wait(10.0) == 0
    assert "host-1 has joined: agent-1, tcp:host.test:" in job.said()
    for logs in (job.job.logs, tmp_path / "agent-1" / "logs"):
        assert list(logs.glob("server-?.log"))


@pytest.mark.soak
def test_a_host_without_a_free_port_leaves_the_job_to_the_others(begin: Begin) -> None:
    with socket.socket() as last:
        last.bind(("127.0.0.1", 7119))
        last.listen()
        job = begin("--servers", "4")
        agent = job.host("--ports", "7118-7119")  # one, for the host itself

        assert agent.wait(90.0) == 2
        assert "somebody has each of its ports 7118-7119" in job.said("agent-1")
        assert "is lost: agent-1 cannot take part: 127.0.0.1: somebody has" in job.said()
        assert job.end()["exact"]
