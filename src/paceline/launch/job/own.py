"""Which address of this machine others reach, and which ports its listeners take.

::

    flags                  --network, --advertise; for the launcher --listen
    PACELINE_NETWORK, PACELINE_ADVERTISE         where no flag says anything of it
    the way to the launcher                      the address that packets there come from

What is advertised may be a name, or an address of a translation: then it is not what is
bound. Which addresses there are, `candidates` asks the kernel; all else is pure.

Waits: for nothing.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.transport.address import (
    MOST_PORTS,
    TcpAddress,
    TcpListening,
    is_loopback,
    is_name,
    parse_address,
    parse_host,
)

NETWORK = "PACELINE_NETWORK"
ADVERTISE = "PACELINE_ADVERTISE"
PORTS = "PACELINE_PORTS"
_ALL_IPV4 = "0.0.0.0"


class Said(NamedTuple):
    """What a user has said, and by which option or variable."""

    option: str
    text: str

    def __str__(self) -> str:
        return f"{self.option} {self.text}"


class OwnWish(NamedTuple):
    """What a user says of this machine's own address, and of its ports (0, 0: any)."""

    network: Said | None = None  # a network or an interface
    advertise: Said | None = None  # an IP address or a name
    ports: tuple[int, int] = (0, 0)

    @classmethod
    def of(
        cls,
        network: str | None,
        advertise: str | None,
        ports: str | None,
        environ: Mapping[str, str],
        *,
        is_named: bool = False,
    ) -> "OwnWish":
        """Flags, or an environment where they are silent; ``is_named``: another has spoken.

        Raises:
            UsageError: ports are none.
        """
        is_said = is_named or network is not None or advertise is not None
        variables: Mapping[str, str] = {} if is_said else environ
        chosen = _said("--ports", ports, PORTS, environ)
        return cls(
            _said("--network", network, NETWORK, variables),
            _said("--advertise", advertise, ADVERTISE, variables),
            (0, 0) if chosen is None else parse_ports(chosen),
        )


class Candidate(NamedTuple):
    """An address of this machine that others may reach, and the interface that has it."""

    interface: str
    host: str


Candidates = Sequence[Candidate]


def candidates() -> list[Candidate]:
    """All addresses of this machine, but for those that are of one link alone."""
    import psutil  # noqa: PLC0415  (most commands do not ask)

    return [
        Candidate(interface, found.address)
        for interface, addresses in psutil.net_if_addrs().items()
        for found in addresses
        if found.family in {socket.AF_INET, socket.AF_INET6}
        and "%" not in found.address
        and not ipaddress.ip_address(found.address).is_link_local
    ]


def parse_ports(said: Said) -> tuple[int, int]:
    """Read a range of ports, both ends of it included: ``7100-7199``.

    Raises:
        UsageError: it is none, or of one port.
    """
    first, _, last = said.text.partition("-")
    if all(end.isascii() and end.isdecimal() and len(end) <= 5 for end in (first, last)):
        ends = int(first), int(last)
        if 0 < ends[0] < ends[1] < MOST_PORTS:
            return ends
    raise UsageError(
        f"{said}: expected a range of ports such as 7100-7199, with one "
        "for each listener of this machine"
    )


def own_listening(
    wish: OwnWish,
    launcher: TcpAddress,
    way: Callable[[], str],
    here: Candidates,
    *,
    is_plain: bool = False,
) -> TcpListening:
    """Where the listeners of a host are; ``way`` finds its address towards the launcher.

    Raises:
        UsageError: the network has no address of this machine, or several; or what is
            advertised is known to lead nowhere. What ``way`` raises.
    """
    network = wish.network and in_network(wish.network, here, launcher.host)
    advertised = wish.advertise and _advertised(wish.advertise)
    if network is None and advertised is None:
        network = way()
    host, bound = _host_and_bound(advertised, network, here)
    said = wish.advertise or wish.network or Said("--join", str(launcher))
    if is_loopback(host) and not launcher.is_loopback:
        raise UsageError(
            f"{said}: {host} is this machine for everybody who asks, and the launcher is "
            f"on another one: expected one of {_told(here)} (--advertise, --network)"
        )
    _require_wide(said, host, here)
    if is_plain and advertised is not None:
        _require_untranslated(host, here)
    return TcpListening(host, bound, *wish.ports)


def listening_at(
    listen: str, wish: OwnWish, here: Candidates, *, is_plain: bool = False
) -> TcpListening:
    """Where a launcher listens that was told ``--listen``, ``IP:PORT`` or ``:PORT``.

    Port 0: one of the range, or any.

    Raises:
        UsageError: it is no address of one machine, and nothing else says which; or as of
            `own_listening`.
    """
    address, is_open = _listen_address(listen)
    if not is_one_address(listen):
        found = own_anywhere(f"--listen {listen}", wish, here, is_plain=is_plain)
        if not is_open:
            found = found._replace(bound=address.host)
        if found.bound == _ALL_IPV4 and ":" in found.host:
            raise UsageError(
                f"--listen {listen}: takes IPv4 alone, and others would be told "
                f"{found.host}: listen at [::]:{address.port}, or at one address"
            )
    else:
        found = _at_named(address.host, wish, here, is_plain=is_plain)
    if address.port == 0:
        return found
    if found.first <= address.port <= found.last:
        raise UsageError(
            f"--listen {listen}: port {address.port} is one of --ports {found.first}-"
            f"{found.last}, which are for all other listeners: name another, or 0"
        )
    return found.at(address.port)


def is_one_address(listen: str) -> bool:
    """Whether ``--listen`` says itself which address of this machine it means.

    Raises:
        UsageError: it is no address.
    """
    address, is_open = _listen_address(listen)
    return not (is_open or ipaddress.ip_address(address.host).is_unspecified)


def own_anywhere(
    what: str, wish: OwnWish, here: Candidates, *, is_plain: bool = False
) -> TcpListening:
    """Where the listeners of a launcher are whose address others must say.

    Raises:
        UsageError: none does, ``what`` is the option that needs it; or as of
            `own_listening`.
    """
    network = wish.network and in_network(wish.network, here)
    advertised = wish.advertise and _advertised(wish.advertise)
    said = wish.advertise or wish.network
    if said is None:
        raise UsageError(
            f"{what} stands for all addresses of this machine, and others must be told "
            "one: name it instead, or its network with --network, or with --advertise what "
            f"leads here; there are {_told(here)}"
        )
    host, bound = _host_and_bound(advertised, network, here)
    _require_wide(said, host, here)
    if is_plain:
        _require_untranslated(host, here)
    return TcpListening(host, bound, *wish.ports)


def in_network(said: Said, here: Candidates, like: str = "") -> str:
    """The address of this machine in a network or at an interface.

    Of an interface with both families it is that of the family of ``like``, or IPv4.

    Raises:
        UsageError: there is none, or there are several.
    """
    found = [one.host for one in here if one.interface == said.text]
    if found:
        is_known = like and not is_name(like)
        is_v6 = ":" in like if is_known else all(":" in host for host in found)
        found = [host for host in found if (":" in host) == is_v6]
    else:
        with contextlib.suppress(ValueError):
            network = ipaddress.ip_network(said.text, strict=False)
            found = [one.host for one in here if ipaddress.ip_address(one.host) in network]
    if len(found) == 1:
        return found[0]
    several = f"several, {', '.join(found)}: name one with --advertise" if found else "none"
    raise UsageError(
        f"{said}: expected a network such as 10.0.0.0/8, or an interface, with one address "
        f"of this machine in it, and there is {several}; there are {_told(here)}"
    )


def _listen_address(listen: str) -> tuple[TcpAddress, bool]:
    """What ``--listen`` says, and whether it leaves the address open."""
    text = listen.removeprefix("tcp:")
    is_open = text.startswith(":") and text[1:].isdecimal()
    try:
        address = parse_address(f"tcp:{_ALL_IPV4}{text}" if is_open else f"tcp:{text}")
    except UsageError as error:
        raise UsageError(f"--listen: {error}") from error
    assert isinstance(address, TcpAddress)
    if address.is_name:
        raise UsageError(
            f"--listen {listen}: expected an address of this machine, got a name: say "
            f"--listen :{address.port}, and --advertise {address.host} for what others are "
            "told"
        )
    return address, is_open


def _at_named(
    bound: str, wish: OwnWish, here: Candidates, *, is_plain: bool
) -> TcpListening:
    """The address is said by ``--listen`` itself."""
    if wish.network is not None:
        raise UsageError(
            f"{wish.network}: --listen names an address already, {bound}: leave one of "
            "them out"
        )
    host = bound if wish.advertise is None else _advertised(wish.advertise)
    _require_wide(wish.advertise or Said("--listen", bound), host, here)
    if is_plain and host != bound:
        _require_untranslated(host, here)
    return TcpListening(host, bound, *wish.ports)


def _host_and_bound(
    advertised: str | None, network: str | None, here: Candidates
) -> tuple[str, str]:
    if advertised is None:
        assert network is not None
        return network, network
    if advertised in {one.host for one in here}:
        if network not in {None, advertised}:
            raise UsageError(
                f"--advertise {advertised}: is another address of this machine than its "
                f"network says, {network}, and nobody would listen there: leave one of "
                "them out"
            )
        return advertised, advertised
    bound = network or _everywhere(here)
    if is_loopback(advertised) and not is_loopback(bound):
        raise UsageError(
            f"--advertise {advertised}: is this machine for everybody who asks: expected "
            f"one of {_told(here)}, or a name that leads to it from elsewhere"
        )
    return advertised, bound


def _everywhere(here: Candidates) -> str:
    """The one address of this machine, or all that it has."""
    far = [one.host for one in here if not is_loopback(one.host)]
    if len(far) == 1:
        return far[0]
    return "::" if any(":" in host for host in far) else _ALL_IPV4


def _advertised(said: Said) -> str:
    """An IP address or a name, which others are told.

    Raises:
        UsageError: it is neither, or stands for all addresses.
    """
    text = said.text
    is_bracketed = text.startswith("[") and text.endswith("]")
    if text.count(":") == 1:
        raise UsageError(
            f"{said}: expected an IP address or a name without a port: others reach each "
            "listener of this machine at the port that it has here (--ports)"
        )
    host = parse_host(str(said), text[1:-1] if is_bracketed else text)
    if not is_name(host) and ipaddress.ip_address(host).is_unspecified:
        raise UsageError(f"{said}: stands for all addresses; expected one, or a name")
    return host


def _require_wide(said: Said, host: str, here: Candidates) -> None:
    if not is_name(host) and ipaddress.ip_address(host).is_link_local:
        raise UsageError(
            f"{said}: {host} is an address of one link alone: expected one of "
            f"{_told(here)} (--advertise, --network)"
        )


def _require_untranslated(host: str, here: Candidates) -> None:
    """Without TLS both ends prove the address that they see, and must see the same."""
    if not is_name(host) and host not in {one.host for one in here}:
        raise UsageError(
            f"--plain: {host} is no address of this machine ({_told(here)}), so it is "
            "translated on the way, which links without TLS do not bear: leave --plain "
            "out, or name an address of this machine"
        )


def _said(
    option: str, text: str | None, variable: str, environ: Mapping[str, str]
) -> Said | None:
    if text is not None:
        return Said(option, text)
    return Said(variable, environ[variable]) if environ.get(variable) else None


def _told(here: Candidates) -> str:
    """Addresses that others may reach, in words."""
    far = [one for one in here if not is_loopback(one.host)]
    return ", ".join(f"{one.interface} {one.host}" for one in far) or "none but loopback"
