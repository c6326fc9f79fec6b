import re

import pytest

from paceline.errors import UsageError
from paceline.transport.address import (
    Address,
    InProcessAddress,
    TcpAddress,
    TcpListening,
    UnixAddress,
    parse_address,
    parse_listening,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/x.sock", UnixAddress("/run/x.sock")),
        ("inproc:coordinator", InProcessAddress("coordinator")),
        ("tcp:127.0.0.1:4711", TcpAddress("127.0.0.1", 4711)),
        ("tcp:0.0.0.0:0", TcpAddress("0.0.0.0", 0)),
        ("tcp:[::1]:65535", TcpAddress("::1", 65535)),
        ("tcp:build.example:7070", TcpAddress("build.example", 7070)),
        ("tcp:pace-0.pace.ns.svc.:7070", TcpAddress("pace-0.pace.ns.svc.", 7070)),
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
        *("tcp:::1:4711", "tcp:[127.0.0.1]:1", "tcp:[localhost]:1", "tcp:127.0.0.1:65536"),
        *("tcp:10.0.0:1", "tcp:a.0x7f:1", "tcp:256.0.0.1:1", "tcp:a..b:1", "tcp:-a:1"),
        *("tcp:a b:1", f"tcp:{'a' * 64}:1", f"tcp:{'a.' * 127}a:1", "tcp:b\u00fccher.de:1"),
        *("tcp:10.0.0.1:7100-7199", "tcp:10.0.0.1:7100@0.0.0.0"),
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
        *(("localhost", True), ("a.localhost.", True), ("localhost.example", False)),
    ],
)
def test_loopback_is_known(host: str, is_loopback: bool) -> None:
    assert TcpAddress(host, 1).is_loopback is is_loopback


def test_path_too_long_for_the_kernel_is_refused_with_its_length() -> None:
    longest = "/" + "x" * 106
    assert parse_address(f"unix:{longest}") == UnixAddress(longest)
    with pytest.raises(UsageError, match="at most 107 bytes, this one has 108"):
        parse_address(f"unix:{longest}x")


def test_a_scope_id_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="'fe80::1%eth0' has a scope id, which means"):
        parse_address("tcp:[fe80::1%eth0]:7070")


def test_a_name_is_one_whatever_its_letters() -> None:
    assert parse_address("tcp:Build.Example:7") == TcpAddress("build.example", 7)


@pytest.mark.parametrize(
    ("text", "listening"),
    [
        ("tcp:127.0.0.1:0", TcpListening("127.0.0.1", "127.0.0.1")),
        ("tcp:10.0.0.1:7070", TcpListening("10.0.0.1", "10.0.0.1", 7070, 7070)),
        ("tcp:[fd00::1]:7100-7199", TcpListening("fd00::1", "fd00::1", 7100, 7199)),
        ("tcp:build.example:0@10.0.0.1", TcpListening("build.example", "10.0.0.1")),
        ("tcp:10.0.0.1:5@::", TcpListening("10.0.0.1", "::", 5, 5)),
    ],
)
def test_where_to_listen_is_read_as_it_is_written(
    text: str, listening: TcpListening
) -> None:
    assert parse_listening(text) == TcpListening.parse(text) == listening
    assert str(listening) == text


@pytest.mark.parametrize(
    "text", ["tcp:name:7", "tcp:10.0.0.1:1@name", "tcp:10.0.0.1:1-2-3", "tcp:10.0.0.1:-2"]
)
def test_who_is_to_listen_must_be_told_where(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"address {text!r}")):
        parse_listening(text)


@pytest.mark.parametrize(
    ("listening", "from_here"),
    [
        ("tcp:build.example:7@10.0.0.1", "tcp:10.0.0.1:7"),
        ("tcp:10.0.0.1:7", "tcp:10.0.0.1:7"),
        ("tcp:build.example:7@0.0.0.0", "tcp:build.example:7"),
        ("tcp:build.example:7@127.0.0.1", "tcp:build.example:7"),  # else without TLS
        ("tcp:127.0.0.1:7", "tcp:127.0.0.1:7"),
    ],
)
def test_this_machine_reaches_its_own_where_they_are_bound(
    listening: str, from_here: str
) -> None:
    assert str(TcpListening.parse(listening).from_here) == from_here
