"""Network namespaces as machines: own addresses, links that are cut, slowed or one-way.

::

    machine 0      machine 1      machine 2
      eth0           eth0           eth0
        |              |              |        veth pairs
      port0          port1          port2
        ------------ switch ------------       a bridge, in a namespace of its own

Each machine has an IPv4 and an IPv6 address, and a loopback of its own. Nothing of the
host's network changes, and two rigs never meet: tests talk to a machine through sockets
that they make inside of one (`Machine.inside`). All else is shared: files, process ids,
memory, clocks.

What cannot arrive vanishes, and no sender is told: where the others are, every machine
knows from the start, and never asks.

Waits: see `paceline.testing.namespaces`. Whatever ends the tests, the next rig sweeps what
they left.
"""

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import IO, Final, final

from paceline.errors import UsageError
from paceline.testing.namespaces import (
    GONE_S,
    MachineError,
    make_namespace,
    sweep_namespaces,
)

DEVICE: Final = "eth0"  # of every machine
MOST = 200  # machines of a rig: its IPv4 network is a /24
QUEUE_MS = 200  # bytes that may wait at a slow link; a fuller queue drops
BURST_KB = 64
RUN_S = 30.0
_NOBODY = "02:70:6c:ff:ff:ff"  # the switch's own: what is sent to it ends there
_rigs = itertools.count()


@cache
def why_no_machines() -> str:
    """Why this machine or user can make none, in a sentence; empty if it can.

    It is tried once in a process.
    """
    try:
        with Machines(1) as machines:
            machines[0].slow(1e9)
    except MachineError as error:
        return f"no machines of network namespaces here: {error}"
    return ""


@final
class Machine:
    """One machine of a rig.

    Attributes:
        index: of it in its rig.
        ipv4: its address; empty if it has none.
        ipv6: its address.
    """

    def __init__(self, index: int, net: "_Net") -> None:
        """Make it, and plug it in; it knows nobody yet."""
        self.index = index
        self.ipv4, self.ipv6 = net.addresses(index)
        self._net = net
        self._mac = f"02:70:6c:00:00:{index:02x}"
        self._port = f"port{index}"
        self._started: list[subprocess.Popen[bytes]] = []
        self._namespace = make_namespace(f"{net.name}-{index}")
        self._ends = ((self._namespace, DEVICE), (net.switch, self._port))
        net.made.callback(self._close)
        self._lay()

    @property
    def address(self) -> str:
        """The one that others reach it by: IPv4, if it has one."""
        return self.ipv4 or self.ipv6

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and what it starts meanwhile, is on this machine.

        A socket stays on the machine that it was made on.
        """
        with self._namespace.inside():
            yield

    def popen(
        self,
        command: Sequence[str | Path],
        log: Path | None = None,
        *,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a process here, in a session of its own; it is gone when the rig is.

        Args:
            command: it and its arguments, as for `subprocess.Popen`, as is the rest.
            log: to the end of which both its outputs go, instead of ``stdout``.
            stdin: nothing, unless given.
            stdout: that of the tests, unless given.
            env: that of the tests, unless given.
            cwd: that of the tests, unless given.
        """
        with contextlib.ExitStack() as stack:
            if log is not None:
                stdout = stack.enter_context(log.open("ab"))
            stack.enter_context(self.inside())
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=None if log is None else subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def run(
        self,
        command: Sequence[str | Path],
        *,
        timeout_s: float = RUN_S,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Run a process here to its end, and return what it said at stdout.

        Raises:
            MachineError: its status was not 0, or it took longer; the text has all it said.
        """
        words = " ".join(map(str, command))
        with self.inside():
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=timeout_s,
                    env=env,
                    cwd=cwd,
                )
            except subprocess.TimeoutExpired as error:
                said = b"".join(filter(None, (error.stdout, error.stderr))).decode()
                raise MachineError(
                    f"machine {self.index}: {words}: not over after {timeout_s:g} s; {said}"
                ) from error
        if done.returncode:
            said = f"status {done.returncode}: {done.stdout}{done.stderr}"
            raise MachineError(f"machine {self.index}: {words}: {said}")
        return done.stdout

    def cut(self) -> None:
        """Pull the cable: nothing leaves or comes; addresses and connections stay."""
        self._net.switch.ip(f"link set {self._port} down")

    def cut_one_way(self, to: "Machine") -> None:
        """Lose all that this machine sends to ``to``, and nothing that ``to`` sends to it.

        A sender sees no error. Of a connection between them everything stands still, since
        this machine's acknowledgements are lost, too.
        """
        self._namespace.ip(*to._found_at(_NOBODY))
        self._net.lost.add((self, to))

    def heal(self) -> None:
        """Undo every cut, one-way ones from and to this machine too; may be repeated.

        What is sent from now on arrives.
        """
        for pair in [pair for pair in self._net.lost if self in pair]:
            sender, receiver = pair
            sender._namespace.ip(*receiver._found_at(receiver._mac))
            self._net.lost.remove(pair)
        self._net.switch.ip(f"link set {self._port} up")
        self._wait_up()

    def slow(self, bits_per_s: float | None) -> None:
        """Have its link carry so many bits a second each way; None: all that it can."""
        for namespace, device in self._ends:
            if bits_per_s is None:
                namespace.tc(f"qdisc replace dev {device} root noqueue")
            else:
                limit = f"rate {bits_per_s:.0f}bit burst {BURST_KB}kb latency {QUEUE_MS}ms"
                namespace.tc(f"qdisc replace dev {device} root tbf {limit}")

    def narrow(self, packet_bytes: int) -> None:
        """Lose what others send to it in larger packets than these; no sender is told.

        Small ones pass, and so does all that it sends. It undoes `slow`, and `slow` it.
        """
        # A burst that is smaller than a packet never lets it go.
        limit = f"rate 1gbit burst {packet_bytes}b latency {QUEUE_MS}ms"
        self._net.switch.tc(f"qdisc replace dev {self._port} root tbf {limit}")

    def hang(self) -> None:
        """Stop all its processes; its kernel goes on, and still acknowledges what comes.

        Raises:
            MachineError: one still runs.
        """
        self._namespace.freeze()

    def wake(self) -> None:
        """Let its stopped processes go on."""
        self._namespace.thaw()

    def kill(self) -> None:
        """Lose the machine: the link is cut, and no process of it is left.

        Nothing of the end is heard by others, not even closed connections. After `heal` it
        is there again, with its addresses and without a process.

        Raises:
            MachineError: a process is still there.
        """
        self.cut()
        self._namespace.kill()

    def processes(self) -> list[int]:
        """Ids of its processes, those that they started too; never of the tests' own.

        A thread of the tests that is inside is none.
        """
        return self._namespace.processes()

    def _meet(self, others: Sequence["Machine"]) -> None:
        """Be up, and know where these machines are, for good."""
        self._wait_up()
        lines = (line for other in others for line in other._found_at(other._mac))
        self._namespace.ip(*lines)

    def _found_at(self, mac: str) -> list[str]:
        """Commands by which another machine finds this one at a hardware address."""
        return [
            f"neigh replace {address} lladdr {mac} nud permanent dev {DEVICE}"
            for address in (self.ipv4, self.ipv6)
            if address
        ]

    def _wait_up(self) -> None:
        for namespace, device in self._ends:
            namespace.wait_up(device)

    def _lay(self) -> None:
        here = self._namespace.name
        self._net.switch.ip(
            f"link add {self._port} type veth"
            f" peer name {DEVICE} address {self._mac} netns {here}",
            f"link set {self._port} master switch up",
        )
        ipv4 = [f"address add {self.ipv4}/24 dev {DEVICE}"] if self.ipv4 else []
        self._namespace.ip(
            "link set lo up",
            f"link set {DEVICE} up",
            *ipv4,
            f"address add {self.ipv6}/64 dev {DEVICE} nodad",
        )

    def _close(self) -> None:
        self._namespace.remove()
        for process in self._started:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):  # what was not sent yet
                        pipe.close()
            process.wait(GONE_S)


@final
class Machines(Sequence[Machine]):
    """A rig of machines, which are there while its ``with`` lasts."""

    def __init__(self, count: int, *, ipv6_only: bool = False) -> None:
        """Make nothing yet.

        Args:
            count: of machines, each a few hundredths of a second.
            ipv6_only: whether they have no IPv4 address but that of loopback.

        Raises:
            UsageError: ``count`` is not within 1 and `MOST`.
        """
        if not 1 <= count <= MOST:
            raise UsageError(f"expected 1 to {MOST} machines, got {count}")
        self._count, self._ipv6_only = count, ipv6_only
        self._made = contextlib.ExitStack()
        self._machines: list[Machine] = []

    def __enter__(self) -> "Machines":
        """Make them; what killed processes have left is swept before.

        Raises:
            MachineError: they cannot be made, and nothing is left of them.
        """
        sweep_namespaces()
        with contextlib.ExitStack() as made:
            net = _Net(made, ipv6_only=self._ipv6_only)
            self._machines = [Machine(index, net) for index in range(self._count)]
            for machine in self._machines:
                machine._meet([other for other in self._machines if other is not machine])
            self._made = made.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes on them, and remove them.

        Raises:
            MachineError: something is still there; the rest is gone.
        """
        self._made.close()

    def __getitem__(self, index: int) -> Machine:  # type: ignore[override]  # no slices
        """One of them."""
        return self._machines[index]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._machines)


@final
class _Net:
    """What machines of a rig have in common."""

    def __init__(self, made: contextlib.ExitStack, *, ipv6_only: bool) -> None:
        """Make the switch; ``made`` takes away what was made."""
        self.made = made
        number = next(_rigs)
        self.name = str(number)
        self.lost: set[tuple[Machine, Machine]] = set()  # (sender, receiver)
        # Rigs cannot meet; that addresses differ shows which one a message is about.
        self._place = (251 * os.getpid() + number) & 0xFFFF
        self._ipv6_only = ipv6_only
        self.switch = make_namespace(f"{self.name}-switch")
        made.callback(self.switch.remove)
        self.switch.ip(
            f"link add switch address {_NOBODY} type bridge"
            " stp_state 0 forward_delay 0 mcast_snooping 0",
            "link set switch up",
        )

    def addresses(self, index: int) -> tuple[str, str]:
        """IPv4 and IPv6 of a machine."""
        ipv4 = IPv4Address((10 << 24) + (self._place << 8) + index + 1)
        ipv6 = IPv6Address((0xFD00 << 112) + (self._place << 96) + index + 1)
        return "" if self._ipv6_only else str(ipv4), str(ipv6)
