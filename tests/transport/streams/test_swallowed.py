"""Where large frames vanish and small ones pass, the second loss says so."""

from collections.abc import Iterator

import pytest

from paceline.errors import LARGE_DO_NOT_PASS, TransportError
from paceline.ids import HOST
from paceline.launch.hosts.probing import Echoes
from paceline.launch.job import Wires
from paceline.messages.hosts import Echo, Echoed
from paceline.testing.machines import Machines
from paceline.timing import SystemClock
from paceline.transport.connection import Connection
from paceline.transport.handshake import Secret, Way

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.usefixtures("needs_machines"),
]
ANSWER_S = 3.0


class Two:
    """A machine that asks, and one that answers."""

    def __init__(self, machines: Machines, way: Way) -> None:
        self.asking, self.answering = machines
        secret = Secret.fresh()
        self.wires = Wires("", HOST, SystemClock(), connect_s=2.0, secret=secret, way=way)
        with self.answering.inside():
            address = f"tcp:{self.answering.ipv4}:0"
            self.listener = self.wires.listen_as_host(address, Echoes())

    def connect(self) -> Connection:
        """A connection that was not there before."""
        with self.asking.inside():
            return self.wires.to_other_host(self.listener.address, "")

    def ask(self, num_bytes: int) -> str:
        """Why there is no answer; empty: there is."""
        try:
            with self.connect() as connection:
                answer = connection.call(Echo(load=bytes(num_bytes)), timeout_s=ANSWER_S)
        except TransportError as error:
            return str(error)
        assert answer.message == Echoed(num_bytes=num_bytes)
        return ""


@pytest.fixture(params=["tls", "plain"])
def two(request: pytest.FixtureRequest) -> Iterator[Two]:
    with Machines(2) as machines:
        made = Two(machines, request.param)
        yield made
        made.listener.close()


def test_the_second_loss_of_a_large_frame_says_what_the_path_does(two: Two) -> None:
    two.answering.narrow(1300)

    assert two.ask(100) == ""
    first = two.ask(1 << 20)
    assert first
    assert LARGE_DO_NOT_PASS not in first
    assert two.ask(100) == "", "small ones do pass"
    assert two.ask(1 << 20).endswith(LARGE_DO_NOT_PASS)

    two.answering.slow(None)
    assert two.ask(1 << 20) == ""
    two.answering.narrow(1300)
    assert LARGE_DO_NOT_PASS not in two.ask(1 << 20), "it is the first one again"


@pytest.mark.soak
def test_a_machine_that_is_cut_off_is_no_such_path(two: Two) -> None:
    for _ in range(2):
        with two.connect() as connection:
            two.answering.cut()
            with pytest.raises(TransportError) as lost:
                connection.call(Echo(load=bytes(1 << 20)), timeout_s=ANSWER_S)
            assert LARGE_DO_NOT_PASS not in str(lost.value)
        assert "nothing answers" in two.ask(1 << 20)
        two.answering.heal()
        assert two.ask(1 << 20) == ""
