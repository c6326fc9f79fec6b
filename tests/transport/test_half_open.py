"""A machine vanishes: neither who waits for it nor who sends to it does so for ever."""

import threading
import time
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from paceline.errors import TransportError
from paceline.testing.machines import Machines
from paceline.timing import SystemClock
from paceline.transport.connection import Connection
from paceline.transport.frames import DATA_LIMITS, ByteArray
from paceline.transport.handshake import Hello, HelloCheck, Secret, Security
from paceline.transport.opening import connect, listen
from paceline.transport.service import Peer, Reply

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("needs_machines")]
SECURITY = Security(Secret.fresh(), way="plain")
ANSWER_S = 1.0
LATE_S = 1.5  # beyond a deadline, on a machine that does other things


class Carry(msgspec.Struct, tag=True):
    """Bytes, or nothing."""


class Carried(msgspec.Struct, tag=True):
    """They have come."""


class Service:
    """Answers everybody but those it is told to keep waiting."""

    def __init__(self) -> None:
        self.is_mute = False
        self.gone = threading.Event()

    def received(
        self, _: Peer, __: msgspec.Struct, ___: list[ByteArray], reply: Reply
    ) -> None:
        if not self.is_mute:
            reply(Carried())

    def disconnected(self, _: Peer) -> None:
        self.gone.set()


class Ends:
    """A connection between two machines, and who listens."""

    def __init__(self, machines: Machines) -> None:
        self.machines, self.service = machines, Service()
        clock = SystemClock()
        near, far = machines[0], machines[1]
        with far.inside():
            self.listener = listen(
                f"tcp:{far.ipv4}:7070",
                self.service,
                hello_check=HelloCheck("run", "server-0", {"trainer"}, SECURITY),
                request_type=lambda _: Carry,
                clock=clock,
            )
        hello = Hello(run="run", role="trainer-0", incarnation=1)
        with near.inside():
            self.connection: Connection = connect(
                self.listener.address, hello, Carried, DATA_LIMITS, clock, 5.0, SECURITY
            )

    def call(self, num_bytes: int = 0, timeout_s: float = ANSWER_S) -> float:
        """Send so many bytes; how long it took until the answer, or its deadline, came."""
        began_s = time.monotonic()
        sent = [np.zeros(num_bytes, np.uint8)] if num_bytes else []
        try:
            self.connection.call(Carry(), sent, timeout_s=timeout_s)
        finally:
            self.took_s = time.monotonic() - began_s
        return self.took_s


@pytest.fixture
def ends() -> Iterator[Ends]:
    with Machines(2) as machines:
        made = Ends(machines)
        made.call()
        yield made
        made.connection.close()
        made.listener.close()


def test_who_waits_for_an_answer_of_a_machine_that_is_gone_waits_until_its_deadline(
    ends: Ends,
) -> None:
    ends.service.is_mute = True
    waiting = threading.Timer(0.2, ends.machines[1].cut)
    waiting.start()
    with pytest.raises(TransportError):
        ends.call()
    assert ends.took_s < ANSWER_S + LATE_S


def test_a_push_into_a_link_that_is_dead_ends_with_its_deadline(ends: Ends) -> None:
    ends.machines[1].cut()
    with pytest.raises(TransportError):
        ends.call(64 << 20)
    assert ends.took_s < ANSWER_S + LATE_S


def test_control_is_not_held_up_by_what_fills_a_slow_link(ends: Ends) -> None:
    """A beat has its own connection, and waits for what the link holds, not for all."""
    for machine in ends.machines:
        machine.slow(20e6)
    hello = Hello(run="run", role="trainer-1", incarnation=2)
    with ends.machines[0].inside():
        beats = connect(
            ends.listener.address, hello, Carried, DATA_LIMITS, SystemClock(), 5.0, SECURITY
        )
    bulk = threading.Thread(target=ends.call, args=(6 << 20, 30.0))
    bulk.start()
    longest_s = 0.0
    while bulk.is_alive():
        began_s = time.monotonic()
        beats.call(Carry(), timeout_s=10.0)
        longest_s = max(longest_s, time.monotonic() - began_s)
        bulk.join(0.05)
    beats.close()
    assert ends.took_s > 2.0, "the link is slow"
    assert longest_s < 1.0
