"""Which address of a machine others reach, and which ports its listeners take."""

import re
import socket
from collections.abc import Callable

import pytest

from paceline.errors import UsageError
from paceline.launch.job.own import (
    Candidate,
    OwnWish,
    Said,
    candidates,
    in_network,
    is_one_address,
    listening_at,
    own_anywhere,
    own_listening,
    parse_ports,
)
from paceline.transport.address import TcpAddress

HERE = (
    Candidate("lo", "127.0.0.1"),
    Candidate("eth0", "10.0.0.2"),
    Candidate("eth0", "fd00::2"),
    Candidate("eth1", "192.168.7.2"),
)
THERE = "there are eth0 10.0.0.2, eth0 fd00::2, eth1 192.168.7.2"
ALONE = (Candidate("lo", "127.0.0.1"), Candidate("eth0", "172.17.0.2"))
LAUNCHER = TcpAddress("10.0.0.1", 7070)


def wish(
    network: str | None = None,
    advertise: str | None = None,
    ports: str | None = None,
) -> OwnWish:
    return OwnWish.of(network, advertise, ports, {})


def nobody() -> str:
    raise AssertionError("the way to the launcher is not asked for")


def of_host(
    said: OwnWish,
    launcher: TcpAddress = LAUNCHER,
    way: Callable[[], str] = nobody,
    *,
    is_plain: bool = False,
) -> str:
    return str(own_listening(said, launcher, way, HERE, is_plain=is_plain))


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as error:
        ask()
    return str(error.value)


# ------------------------------------------------------------- ports


def test_a_range_of_ports_includes_both_ends() -> None:
    assert parse_ports(Said("--ports", "7100-7199")) == (7100, 7199)


@pytest.mark.parametrize(
    "text",
    [
        "7100",
        "7100-7100",
        "7199-7100",
        "0-10",
        "7100-65536",
        "a-b",
        "-",
        "1-2-3",
        "\u0661-\u0663",
    ],
)
def test_what_is_no_range_of_ports_is_refused(text: str) -> None:
    said = refused(lambda: parse_ports(Said("PACELINE_PORTS", text)))
    assert said.startswith(f"PACELINE_PORTS {text}: expected a range of ports such as")


# ------------------------------------------------------------- who is heard


def test_without_a_word_it_is_the_way_to_the_launcher() -> None:
    assert of_host(wish(), way=lambda: "10.0.0.2") == "tcp:10.0.0.2:0"


def test_flags_go_before_the_environment_and_that_before_the_way() -> None:
    machine = {"network": "eth1", "advertise": "pod.example", "ports": "7100-7109"}
    assert of_host(OwnWish.of(None, None, None, _environ(machine))) == (
        "tcp:pod.example:7100-7109@192.168.7.2"
    )
    assert of_host(OwnWish.of("10.0.0.0/8", None, "8000-8009", _environ(machine))) == (
        "tcp:10.0.0.2:8000-8009"
    )
    assert of_host(OwnWish.of(None, "10.0.0.2", None, _environ(machine))) == (
        "tcp:10.0.0.2:7100-7109"
    )


def _environ(said: dict[str, str]) -> dict[str, str]:
    return {f"PACELINE_{name.upper()}": text for name, text in said.items()}


def test_an_address_that_listen_names_goes_before_the_environment() -> None:
    environ = _environ({"network": "eth1", "advertise": "pod", "ports": "7100-7109"})
    said = OwnWish.of(None, None, None, environ, is_named=is_one_address("10.0.0.2:7070"))
    assert said == OwnWish(ports=(7100, 7109))
    said = OwnWish.of(None, None, None, environ, is_named=is_one_address(":7070"))
    assert said.network == Said("PACELINE_NETWORK", "eth1")


# ------------------------------------------------------------- networks


@pytest.mark.parametrize(
    ("network", "launcher", "own"),
    [
        ("10.0.0.0/8", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.9/24", "10.0.0.1", "10.0.0.2"),  # any address of it will do
        ("192.168.7.2", "10.0.0.1", "192.168.7.2"),
        ("fd00::/64", "10.0.0.1", "fd00::2"),
        ("eth1", "10.0.0.1", "192.168.7.2"),
        ("eth0", "10.0.0.1", "10.0.0.2"),
        ("eth0", "fd00::1", "fd00::2"),  # of both families that of the launcher
        ("eth0", "launcher.example", "10.0.0.2"),
    ],
)
def test_the_own_address_is_the_one_in_the_network(
    network: str, launcher: str, own: str
) -> None:
    assert in_network(Said("--network", network), HERE, launcher) == own


@pytest.mark.parametrize(
    "network", ["172.16.0.0/12", "eth7", "not a network", "fd00::/129"]
)
def test_a_network_without_an_address_of_this_machine_is_refused_with_those_it_has(
    network: str,
) -> None:
    said = refused(lambda: of_host(wish(network=network)))
    assert said.startswith(f"--network {network}: expected a network such as 10.0.0.0/8")
    assert f"and there is none; {THERE}" in said


def test_a_network_with_several_is_refused_with_them() -> None:
    everywhere = _environ({"network": "0.0.0.0/0"})
    said = refused(lambda: of_host(OwnWish.of(None, None, None, everywhere)))
    assert said.startswith("PACELINE_NETWORK 0.0.0.0/0: expected")
    here = (*HERE, Candidate("eth1", "10.9.9.9"))
    said = refused(lambda: in_network(Said("--network", "10.0.0.0/8"), here))
    assert "there is several, 10.0.0.2, 10.9.9.9: name one with --advertise" in said


# ------------------------------------------------------------- bound and advertised


@pytest.mark.parametrize(
    ("said", "here", "own"),
    [
        (wish(advertise="10.0.0.2"), HERE, "tcp:10.0.0.2:0"),
        (wish(advertise="[fd00::2]"), HERE, "tcp:[fd00::2]:0"),
        (wish(advertise="203.0.113.5"), HERE, "tcp:203.0.113.5:0@::"),
        (wish(advertise="203.0.113.5"), ALONE, "tcp:203.0.113.5:0@172.17.0.2"),
        (wish(advertise="host.example"), ALONE, "tcp:host.example:0@172.17.0.2"),
        (wish("eth1", "host.example"), HERE, "tcp:host.example:0@192.168.7.2"),
        (wish("eth0", "10.0.0.2"), HERE, "tcp:10.0.0.2:0"),
    ],
)
def test_what_is_advertised_need_not_be_what_is_bound(
    said: OwnWish, here: tuple[Candidate, ...], own: str
) -> None:
    assert str(own_listening(said, LAUNCHER, nobody, here)) == own


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("host.example:7070", "without a port"),
        ("203.0.113.5:7070", "without a port"),
        ("0.0.0.0", "stands for all addresses"),
        ("::", "stands for all addresses"),
        ("fe80::1%eth0", "has a scope id"),
        ("a b", "expected an IP address or a name, got 'a b'"),
        ("127.0.0.1", "is this machine for everybody who asks"),
        ("localhost", "is this machine for everybody who asks"),
        ("169.254.1.1", "is an address of one link alone"),
        ("fe80::1", "is an address of one link alone"),
    ],
)
def test_what_leads_nowhere_is_not_advertised(text: str, why: str) -> None:
    said = refused(lambda: of_host(wish(advertise=text)))
    assert said.startswith(f"--advertise {text}: ")
    assert why in said


def test_an_address_at_which_nobody_would_listen_is_not_advertised() -> None:
    said = refused(lambda: of_host(wish("eth1", "10.0.0.2")))
    assert said.startswith("--advertise 10.0.0.2: is another address of this machine than")


def test_a_way_by_loopback_is_no_way_for_a_launcher_elsewhere() -> None:
    launcher = TcpAddress("launcher.example", 7070)
    said = refused(lambda: of_host(wish(), launcher, lambda: "127.0.0.1"))
    assert said.startswith("--join tcp:launcher.example:7070: 127.0.0.1 is this machine")
    assert "expected one of eth0 10.0.0.2, eth0 fd00::2, eth1 192.168.7.2" in said
    on_one_machine = TcpAddress("127.0.0.1", 7070)
    assert of_host(wish(), on_one_machine, lambda: "127.0.0.1") == "tcp:127.0.0.1:0"


def test_plain_links_bear_no_translation_but_names() -> None:
    said = refused(lambda: of_host(wish(advertise="203.0.113.5"), is_plain=True))
    assert said.startswith("--plain: 203.0.113.5 is no address of this machine")
    assert "translated on the way" in said
    assert of_host(wish(advertise="10.0.0.2"), is_plain=True) == "tcp:10.0.0.2:0"
    assert of_host(wish(advertise="b.example"), is_plain=True) == "tcp:b.example:0@::"


# ------------------------------------------------------------- the launcher's


@pytest.mark.parametrize(
    ("listen", "said", "own"),
    [
        ("10.0.0.2:7070", wish(), "tcp:10.0.0.2:7070"),
        ("127.0.0.1:0", wish(), "tcp:127.0.0.1:0"),
        ("10.0.0.2:0", wish(ports="7100-7109"), "tcp:10.0.0.2:7100-7109"),
        ("10.0.0.2:7070", wish(advertise="a.example"), "tcp:a.example:7070@10.0.0.2"),
        (":7070", wish("eth1"), "tcp:192.168.7.2:7070"),
        (":7070", wish("eth1", "a.example"), "tcp:a.example:7070@192.168.7.2"),
        (":7070", wish(advertise="10.0.0.2"), "tcp:10.0.0.2:7070"),
        (":7070", wish(advertise="a.example"), "tcp:a.example:7070@::"),
        ("0.0.0.0:7070", wish("eth1"), "tcp:192.168.7.2:7070@0.0.0.0"),
        ("[::]:7070", wish("eth1"), "tcp:192.168.7.2:7070@::"),
        ("[::]:7070", wish("fd00::/64"), "tcp:[fd00::2]:7070@::"),
    ],
)
def test_a_launcher_listens_where_it_is_told(listen: str, said: OwnWish, own: str) -> None:
    assert str(listening_at(listen, said, HERE)) == own


@pytest.mark.parametrize("listen", [":7070", "0.0.0.0:7070", "[::]:7070"])
def test_all_addresses_are_told_to_nobody(listen: str) -> None:
    said = refused(lambda: listening_at(listen, wish(), HERE))
    assert said.startswith(f"--listen {listen} stands for all addresses of this machine")
    assert THERE in said


@pytest.mark.parametrize(
    ("listen", "said", "why"),
    [
        ("a.example:7070", wish(), "say --listen :7070, and --advertise a.example"),
        (
            "10.0.0.2:7070",
            wish("eth1"),
            "--network eth1: --listen names an address already",
        ),
        ("169.254.1.1:7070", wish(), "--listen 169.254.1.1: 169.254.1.1 is an address of"),
        ("[fe80::1%eth0]:7070", wish(), "has a scope id"),
        ("0.0.0.0:7070", wish("fd00::/64"), "takes IPv4 alone, and others would be told"),
        (":x", wish(), "--listen: address"),
        (
            "10.0.0.2:7100",
            wish(ports="7100-7119"),
            "port 7100 is one of --ports 7100-7119",
        ),
        (":7070", wish(advertise="localhost"), "is this machine for everybody who asks"),
    ],
)
def test_where_no_launcher_can_be_joined_is_refused(
    listen: str, said: OwnWish, why: str
) -> None:
    assert why in refused(lambda: listening_at(listen, said, HERE))


def test_plain_launchers_bear_no_translation() -> None:
    for listen in (":7070", "10.0.0.2:7070"):
        said = wish(advertise="203.0.113.5")
        why = refused(lambda at=listen, it=said: listening_at(at, it, HERE, is_plain=True))
        assert why.startswith("--plain: 203.0.113.5 is no address of this machine")
    assert str(listening_at("10.9.9.9:7070", wish(), HERE, is_plain=True)) == (
        "tcp:10.9.9.9:7070"  # a wrong one is refused when it is taken
    )


def test_without_listen_any_port_is_taken_at_what_was_said() -> None:
    assert str(own_anywhere("--hosts", wish("eth1"), HERE)) == "tcp:192.168.7.2:0"


def test_addresses_of_this_machine_are_known_but_for_those_of_one_link() -> None:
    here = candidates()
    assert "127.0.0.1" in {one.host for one in here}
    assert not [one for one in here if re.match(r"fe80|169\.254", one.host)]
    for one in here:
        family = socket.AF_INET6 if ":" in one.host else socket.AF_INET
        with socket.socket(family) as sock:
            sock.bind((one.host, 0))
