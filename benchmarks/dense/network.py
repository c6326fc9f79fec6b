"""Two network namespaces with a slow link between them.

::

    near: this process,                                     far: whatever is started
    what it starts           --- veth pair, tc tbf ---      inside of `inside`
    198.18.0.1                     both ways                198.18.0.2

Neither namespace has a name: they are gone with the last process in them, however it ends,
so there is nothing to clean up. Processes in both see each other by process id, so that a
job must be kept from sharing memory across the link (`harness.apart_now`).

Needs Linux, root (CAP_SYS_ADMIN, CAP_NET_ADMIN), `ip` and `tc` (iproute2).

Waits: for `ip` and `tc`, `TOOL_S` at most.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, final

NEAR, FAR = "198.18.0.1", "198.18.0.2"  # of the range for benchmarks (RFC 2544)
NEAR_DEVICE, FAR_DEVICE = "pl-near", "pl-far"
QUEUE_MS = 200  # bytes that may wait at the link; a fuller queue drops
BURST_KB = 64
TOOL_S = 10.0
NAMESPACE = "/proc/thread-self/ns/net"
_CLONE_NEWNET = 0x40000000


class NoNetworkError(RuntimeError):
    """This machine, or this user, can have no such link; the message says why."""


class Traffic(NamedTuple):
    """Bytes over a device since it was made, with all headers but the wire's own."""

    received: int
    sent: int


@final
class SlowLink:
    """The link; this process's thread is near from now on, for good."""

    def __init__(self, mbit_s: float) -> None:
        """Leave the machine's own network, and make the two namespaces.

        Args:
            mbit_s: what the link carries each way.

        Raises:
            NoNetworkError: it cannot be made here.
        """
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                raise NoNetworkError(f"{tool!r} is not installed: it is in iproute2")
        self.mbit_s = mbit_s
        _unshare()
        self._near = os.open(NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        _unshare()
        self._far = os.open(NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        _enter(self._near)
        try:
            self._lay()
        except NoNetworkError:
            self.close()
            raise

    def _lay(self) -> None:
        far = f"/proc/{os.getpid()}/fd/{self._far}"
        _tool(f"ip link add name {NEAR_DEVICE} type veth peer name {FAR_DEVICE}")
        _tool(f"ip link set dev {FAR_DEVICE} netns {far}")
        _set_up(NEAR_DEVICE, NEAR, self.mbit_s)
        with self.inside():
            _set_up(FAR_DEVICE, FAR, self.mbit_s)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and what it starts meanwhile, is far."""
        _enter(self._far)
        try:
            yield
        finally:
            _enter(self._near)

    def close(self) -> None:
        """Let go of both namespaces; who is in them stays there."""
        os.close(self._near)
        os.close(self._far)

    def floor_s(self, num_bytes: float) -> float:
        """Seconds that so many bytes take on the link, one way."""
        return num_bytes * 8 / (self.mbit_s * 1e6)


def read_traffic(device: str, table: Path = Path("/proc/thread-self/net/dev")) -> Traffic:
    """What went over a device of this thread's namespace.

    Raises:
        KeyError: it has no such device.
    """
    for line in table.read_text(encoding="ascii").splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == device:
            columns = numbers.split()
            return Traffic(received=int(columns[0]), sent=int(columns[8]))
    raise KeyError(f"{table}: no device {device!r}")


def _set_up(device: str, address: str, mbit_s: float) -> None:
    limit = f"rate {mbit_s:g}mbit burst {BURST_KB}kb latency {QUEUE_MS}ms"
    _tool(f"ip addr add {address}/24 dev {device}")
    _tool("ip link set dev lo up")
    _tool(f"ip link set dev {device} up")
    _tool(f"tc qdisc add dev {device} root tbf {limit}")


def _tool(command: str) -> None:
    done = subprocess.run(
        command.split(), capture_output=True, text=True, check=False, timeout=TOOL_S
    )
    if done.returncode:
        raise NoNetworkError(f"{command}: {done.stderr.strip()}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _unshare() -> None:
    if _libc().unshare(_CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise NoNetworkError(f"no network namespace of its own: {reason}; it needs root")


def _enter(namespace: int) -> None:
    if _libc().setns(namespace, _CLONE_NEWNET):
        raise NoNetworkError(f"no way back: {os.strerror(ctypes.get_errno())}")
