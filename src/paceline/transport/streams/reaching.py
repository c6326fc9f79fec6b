"""The way to a listener: its name looked up, its addresses tried side by side.

A name is looked up at each connect: it may have moved. All its addresses are tried, the
next one a little after the last, or once that has failed (the shape of RFC 8305): one
that leads nowhere costs `HEAD_START_S`, and no time-out.

Nothing bounds a look-up but who waits for it, so each has a thread of its own; who gives up
leaves it there, and whoever asks for the name next waits for the same one.

Waits: `reach`, `own_host` and `Lookups.wait_addresses`, with deadlines. Any thread.
"""

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import final

from paceline.errors import DeadlineExceeded, PeerLost, UsageError
from paceline.machine import at_fork
from paceline.timing import Deadline, SystemClock
from paceline.transport.address import TcpAddress, UnixAddress, is_loopback
from paceline.transport.handshake import Way
from paceline.transport.streams.pieces import AnySocket
from paceline.transport.streams.sockets import prepare

HEAD_START_S = 0.25  # of an address before the next one is tried

Resolve = Callable[[str], Sequence[str]]
"""IP addresses of a name, in the order in which they are to be tried.

Raises OSError if the name is not known.
"""


def system_resolve(name: str) -> list[str]:
    """What this machine takes a name for; an address of one link alone is left out."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [host for *_, (host, *_) in found if isinstance(host, str) and "%" not in host]


@final
class _Lookup:
    """One look-up, in its thread."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.hosts: Sequence[str] = ()
        self.why = ""  # there are none


@final
class Lookups:
    """The look-ups of a process."""

    def __init__(self, resolve: Resolve = system_resolve) -> None:
        """Nothing is looked up yet."""
        self._resolve = resolve
        self.forget()

    def forget(self) -> None:
        """Wait for none that has begun: after a fork their threads are elsewhere."""
        self._lock = threading.Lock()
        self._pending: dict[str, _Lookup] = {}

    def wait_addresses(self, name: str, timeout_s: float) -> list[str]:
        """IP addresses of a name, each once, of both families by turns.

        Raises:
            PeerLost: nobody knows the name.
            DeadlineExceeded: nobody says so in time.
        """
        with self._lock:
            lookup = self._pending.get(name)
            if lookup is None:
                lookup = self._pending[name] = _Lookup()
                threading.Thread(
                    target=self._run, args=(name, lookup), name=f"name {name}", daemon=True
                ).start()
        if not lookup.over.wait(timeout_s):
            raise DeadlineExceeded(
                f"the name {name!r} was looked up, and whoever this machine asks for names "
                f"has not answered within {timeout_s:.3g} s"
            )
        hosts = [host for host in lookup.hosts if _may_be(name, host)]
        if not hosts:
            why = lookup.why or "it has no address"
            raise PeerLost(f"the name {name!r} leads nowhere from this machine ({why})")
        return _by_turns(hosts)

    def _run(self, name: str, lookup: _Lookup) -> None:
        try:
            lookup.hosts = self._resolve(name)
        except (OSError, UnicodeError) as error:
            lookup.why = getattr(error, "strerror", None) or str(error)
        finally:
            with self._lock:
                if self._pending.get(name) is lookup:
                    del self._pending[name]
            lookup.over.set()


LOOKUPS = Lookups()
at_fork(after_in_child=LOOKUPS.forget)


def reach(
    where: UnixAddress | TcpAddress,
    timeout_s: float,
    way: Way = "local",
    lookups: Lookups = LOOKUPS,
) -> AnySocket:
    """Connect to a door; TLS is yet to be shaken hands on.

    Raises:
        PeerLost: nobody listens there, no packet gets there, or nobody knows the name.
        DeadlineExceeded: nothing answers in time, or somebody who accepts nobody.
    """
    if isinstance(where, UnixAddress):
        sock = _reach_unix(where, timeout_s)
    else:
        sock = _reach_tcp(where, timeout_s, lookups)
    try:
        prepare(sock)
        if way == "tls":
            from paceline.transport.streams import tls  # noqa: PLC0415  (loads ssl)

            return tls.sealed(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def own_host(
    towards: TcpAddress, timeout_s: float = 0.0, lookups: Lookups = LOOKUPS
) -> str:
    """The address of this machine that its packets to another one come from.

    Of several addresses that a name has, the one that answers decides, in ``timeout_s``.

    Raises:
        UsageError: there is no way to that machine.
        TransportError: its name is not known, or nobody answers there.
    """
    host: str
    if towards.is_name:
        with _reach_tcp(towards, timeout_s, lookups) as sock:
            host = sock.getsockname()[0]
            return host
    family = socket.AF_INET6 if ":" in towards.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # nothing is sent
        try:
            probe.connect(towards)
        except OSError as error:
            raise UsageError(
                f"{towards}: this machine has no way there ({error.strerror})"
            ) from error
        host = probe.getsockname()[0]
        return host


def _may_be(name: str, host: str) -> bool:
    """Whoever answers for names must not lead elsewhere what stays on this machine."""
    return is_loopback(host) or not is_loopback(name)


def _by_turns(hosts: Sequence[str]) -> list[str]:
    """Each once, in the order given, but that families take turns."""
    first: list[str] = []
    other: list[str] = []
    for host in dict.fromkeys(hosts):
        (first if (":" in host) == (":" in hosts[0]) else other).append(host)
    pairs = zip_longest(first, other)
    return [host for host in chain.from_iterable(pairs) if host is not None]


def _reach_unix(where: UnixAddress, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A full backlog is waited for by the kernel, which a time-out bounds.
        whole = int(timeout_s)
        timeval = struct.pack("@ll", whole, max(1, int((timeout_s - whole) * 1e6)))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
        sock.connect(where.path)
    except BlockingIOError as error:
        sock.close()
        raise DeadlineExceeded(
            f"{where}: the listener accepts nobody within {timeout_s:.3g} s"
        ) from error
    except OSError as error:
        sock.close()
        raise _nobody_there(where, str(error.strerror)) from error
    return sock


def _reach_tcp(where: TcpAddress, timeout_s: float, lookups: Lookups) -> socket.socket:
    deadline = Deadline(SystemClock(), timeout_s)
    hosts = [where.host]
    if where.is_name:
        hosts = lookups.wait_addresses(where.host, timeout_s)
    race = _Race(where, hosts)
    try:
        while (winner := race.go_on(deadline)) is None:
            if deadline.is_over():
                raise DeadlineExceeded(
                    f"{where}: nothing answers within {timeout_s:.3g} s{race.told}"
                )
        return winner
    finally:
        race.close()


def _nobody_there(where: UnixAddress | TcpAddress, why: str) -> PeerLost:
    return PeerLost(
        f"{where}: nobody listens there ({why}); its role has not started yet, or has gone"
    )


@final
class _Race:
    """Sockets on their way to several addresses of one listener."""

    def __init__(self, where: TcpAddress, hosts: Sequence[str]) -> None:
        """Nobody has started; ``hosts`` are IP addresses, the best one first."""
        self._where = where
        self._coming = list(hosts)
        self._running: dict[int, tuple[str, socket.socket]] = {}  # {descriptor: who}
        self._failed: dict[str, str] = {}  # {host: why}
        self._poll = select.poll()

    @property
    def told(self) -> str:
        """How far the addresses of a name have come, behind a colon; else empty."""
        silent = [host for host, _ in self._running.values()]
        if silent == [self._where.host]:
            return ""
        told = [*self._failed.items(), *((host, "silent") for host in silent)]
        return ": " + ", ".join(f"{host} ({why})" for host, why in told)

    def go_on(self, deadline: Deadline) -> socket.socket | None:
        """Start the next one, and wait for news of any; the first that has arrived.

        Raises:
            PeerLost: all have failed.
        """
        if self._coming:
            self._start(self._coming.pop(0))
        if not self._running:
            if self._coming:
                return None
            whys = [f"{host}: {why}" for host, why in self._failed.items()]
            alone = self._failed.get(self._where.host)
            raise _nobody_there(self._where, alone or ", ".join(whys))
        wait_s = max(deadline.remaining_s(), 1e-3)
        if self._coming:
            wait_s = min(wait_s, HEAD_START_S)
        for descriptor, _ in self._poll.poll(wait_s * 1000):
            self._poll.unregister(descriptor)
            host, sock = self._running.pop(descriptor)
            if not (why := _why_lost(sock)):
                return sock
            sock.close()
            self._failed[host] = why
        return None

    def close(self) -> None:
        """Give up those that have not arrived."""
        for _, sock in self._running.values():
            sock.close()

    def _start(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            self._failed[host] = str(error.strerror)
            return
        sock.setblocking(False)
        try:
            sock.connect((host, self._where.port))
        except BlockingIOError:
            pass
        except OSError as error:
            sock.close()
            self._failed[host] = str(error.strerror)
            return
        self._running[sock.fileno()] = host, sock
        self._poll.register(sock, select.POLLOUT)


def _why_lost(sock: socket.socket) -> str:
    """Why a socket has not arrived, that has news; empty: it has."""
    if number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return os.strerror(number)
    try:
        # A port of this host that nobody listens at can be the one the kernel calls from.
        return "it called itself" if sock.getsockname() == sock.getpeername() else ""
    except OSError as error:  # gone again
        return str(error.strerror)
