"""How the roles of one job reach each other, and how closed that is."""

from typing import cast

import msgspec
import pytest

from paceline.errors import ForeignPeer
from paceline.ids import COORDINATOR, HOST, LAUNCHER
from paceline.launch.job.wiring import OBSERVER, Wires
from paceline.messages.shared import Refusal
from paceline.messages.watching import AskStatus
from paceline.timing import SystemClock
from paceline.transport.frames import ByteArray
from paceline.transport.handshake import Secret, Way
from paceline.transport.service import Peer, Reply, Service

CLOCK = SystemClock()
OLD, NEW = Secret.fresh(), Secret.fresh()
PATIENCE_S = 30.0


class Refusing:
    """Answers everybody."""

    def received(
        self, peer: Peer, message: msgspec.Struct, buffers: list[ByteArray], reply: Reply
    ) -> None:
        assert isinstance(message, AskStatus)
        reply(Refusal(kind="invalid", text=f"{peer.role}, {len(buffers)} buffers"))

    def disconnected(self, peer: Peer) -> None:
        pass


def wires(role: str, secret: Secret = NEW, way: Way | None = None) -> Wires:
    return Wires("run-1", role, CLOCK, secret=secret, way=way)


@pytest.mark.parametrize("way", [None, "plain", "tls"])
def test_roles_with_the_same_word_reach_each_other(way: Way | None) -> None:
    service = cast(Service, Refusing())
    mine = wires(COORDINATOR, way=way)
    with (
        mine.listen_as_coordinator("tcp:127.0.0.1:0", service) as listener,
        wires(OBSERVER, way=way).observe(listener.address) as connection,
    ):
        answer = connection.call(AskStatus(), timeout_s=PATIENCE_S).message
        assert isinstance(answer, Refusal)
        others: set[Way | None] = {None, "plain", "tls"} - {way}
        for other in others:
            with pytest.raises(ForeignPeer, match=r"--plain, or none"):
                wires(OBSERVER, way=other).observe(listener.address)


def test_a_listener_accepts_the_secret_before_this_one_and_no_other() -> None:
    mine = wires(COORDINATOR, Secret.parse(f"{NEW.text()}\n{OLD.text()}\n", "a file"))
    service = cast(Service, Refusing())
    with mine.listen_as_coordinator("tcp:127.0.0.1:0", service) as listener:
        for secret in (OLD, NEW):
            wires(OBSERVER, secret).observe(listener.address).close()
        with pytest.raises(ForeignPeer, match="those accepted have"):
            wires(OBSERVER, Secret.fresh()).observe(listener.address)


def test_who_dials_a_host_back_does_not_take_another_one_for_it() -> None:
    """At one port of a range each: what is advertised may lead to the wrong machine."""
    service = cast(Service, Refusing())
    mine = wires(HOST)._replace(run="my token")
    with mine.listen_as_host("tcp:127.0.0.1:0", service) as listener:
        dial = wires(LAUNCHER).to_host()
        dial(listener.address, "my token").close()
        with pytest.raises(ForeignPeer, match="expects run 'my token'"):
            dial(listener.address, "another's token")
