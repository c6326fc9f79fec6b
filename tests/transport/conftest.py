import socket
from collections.abc import Callable, Iterator

import pytest

from tests.transport.corridors import (
    Corridor,
    InProcessCorridor,
    Memory,
    TcpCorridor,
    UnixCorridor,
)


def has_ipv6() -> bool:
    """Whether this machine has the loopback of IPv6; containers often have none."""
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


OPENERS: dict[str, Callable[[], Corridor]] = {
    "unix": UnixCorridor,
    "tcp": TcpCorridor,
    "plain": lambda: TcpCorridor(way="plain"),
    "tls": lambda: TcpCorridor(way="tls"),
    "tcp6": lambda: TcpCorridor("::1"),
    "inproc": InProcessCorridor,
}


@pytest.fixture(params=OPENERS)
def corridor(request: pytest.FixtureRequest) -> Iterator[Corridor]:
    if request.param == "tcp6" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    opened = OPENERS[request.param]()
    yield opened
    opened.close()


@pytest.fixture
def unix() -> Iterator[UnixCorridor]:
    opened = UnixCorridor()
    yield opened
    opened.close()


@pytest.fixture
def tcp() -> Iterator[TcpCorridor]:
    opened = TcpCorridor()
    yield opened
    opened.close()


@pytest.fixture
def service() -> Memory:
    return Memory()


@pytest.fixture
def tls() -> Iterator[TcpCorridor]:
    opened = TcpCorridor(way="tls")
    yield opened
    opened.close()
