import re

import pytest

from paceline.errors import UsageError
from paceline.transport.address import (
    Address,
    InProcessAddress,
    TcpAddress,
    UnixAddress,
    parse_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", UnixAddress("/run/x.sock")),
        ("inproc:coordinator", InProcessAddress("coordinator")),
        ("tcp:127.0.0.1:4711", TcpAddress("127.0.0.1", 4711)),
        ("tcp:0.0.0.0:0", TcpAddress("0.0.0.0", 0)),
        ("tcp:[::1]:65535", TcpAddress("::1", 65535)),
    ],
)
def test_address_is_read_as_it_is_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "unix:",
            "tcp://host:1",
            "/run/x.sock",
            "unix:x",
            "tcp:",
            "tcp:1",
            "tcp:[::1]",
        ),
        *("tcp:::1:4711", "tcp:[127.0.0.1]:1", "tcp:localhost:1", "tcp:127.0.0.1:65536"),
        *("tcp:127.0.0.1:-1", "tcp:127.0.0.1:٣", "tcp:127.0.0.1:", "tcp:[::1]:0x1"),
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=f"address {re.escape(repr(text))}"):
        parse_address(text)


def test_one_ip_address_is_written_in_one_way() -> None:
    assert str(parse_address("tcp:[0:0:0:0::1]:7")) == "tcp:[::1]:7"


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        *(("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("0.0.0.0", False)),
        *(("::", False), ("192.0.2.1", False), ("::ffff:192.0.2.1", False)),
    ],
)
def test_loopback_is_known(host: str, is_loopback: bool) -> None:
    assert TcpAddress(host, 1).is_loopback is is_loopback


def test_path_too_long_for_the_kernel_is_refused_with_its_length() -> None:
    longest = "/" + "x" * 106
    assert parse_address(f"unix:{longest}") == UnixAddress(longest)
    with pytest.raises(UsageError, match="at most 107 bytes, this one has 108"):
        parse_address(f"unix:{longest}x")
