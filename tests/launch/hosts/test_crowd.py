"""Many machines that come at once are all let in, each once."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.ids import HOST
from paceline.launch.hosts.coming import HostPlan, wait_joined
from paceline.launch.hosts.opening import Listening, open_door
from paceline.launch.job import JobDir, UserScript, Wires, tcp_address
from paceline.launch.processes import Interrupts
from paceline.messages.hosts import JoinHost
from paceline.timing import SystemClock
from paceline.transport.address import TcpListening
from paceline.transport.handshake import Secret
from paceline.transport.patience import PatientConnection
from paceline.transport.service import Peer

HERE = TcpListening("127.0.0.1", "127.0.0.1")
HOSTS = 64


class Nobody:
    """Who is dialled back."""

    def received(self, *_: object) -> None:
        raise AssertionError("nothing is asked of a host")

    def disconnected(self, _: Peer) -> None:
        """Whoever has dialled has seen enough."""


def test_sixty_four_machines_that_come_within_a_second_are_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    clock, secret, said = SystemClock(), Secret.fresh(), list[str]()
    job = JobDir(tmp_path / "job")
    job.logs.mkdir(parents=True)
    together = threading.Barrier(HOSTS)
    with contextlib.ExitStack() as stack:
        monkeypatch.setattr("paceline.launch.hosts.door.TELL_S", 0.0)
        what = (job, JobConfig(run="r"), UserScript("train.py", ()))
        listening = Listening(HERE, hosts=1 + HOSTS)
        open_door(stack, listening, what, "tcp:127.0.0.1:1", secret, said.append, clock)
        address = said[0].partition("--join ")[2].split()[0]

        def come(index: int) -> tuple[str, str]:
            """A host's id, asked for twice."""
            token, name = f"token-{index}", f"machine-{index}"
            wires = Wires("", HOST, clock, secret=secret)
            plan = HostPlan(tcp_address("--join", address), HERE, name, 2, secret)
            at_own = wires._replace(run=token)
            with at_own.listen_as_host(str(HERE), Nobody()) as listener:
                message = JoinHost(token, name, listener.address, 2)
                link = PatientConnection(wires.to_launcher(f"tcp:{address}"))
                together.wait()
                first, again = (
                    wait_joined(plan, link, message, Interrupts(), said.append, clock)
                    for _ in range(2)
                )
                link.close()
            return first.host, again.host

        with ThreadPoolExecutor(HOSTS) as threads:
            found = list(threads.map(come, range(HOSTS)))
    assert sorted(first for first, _ in found) == sorted(
        f"host-{n}" for n in range(1, 1 + HOSTS)
    )
    assert all(first == again for first, again in found), "who asks twice joins once"
