"""Namespaces are machines: they meet, are cut off, hang, die, and leave nothing behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.processes.parent import is_gone
from paceline.testing import machines as rigs
from paceline.testing.machines import Machine, Machines, why_no_machines
from paceline.testing.namespaces import NAMES, MachineError, own_name, sweep_namespaces
from paceline.timing import Deadline, SystemClock

pytestmark = [pytest.mark.slow, pytest.mark.system]
needs_machines = pytest.mark.usefixtures("needs_machines")
SILENT_S = 0.2  # a message takes a ten-thousandth
LIMIT_S = 20.0
PORT = 7000
ECHO = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {PORT}))
while True:
    s.sendto(*s.recvfrom(100))
"""
LEAVES_A_RIG = """
import os, signal, sys
from paceline.testing.machines import Machines
with Machines(1) as rig:
    rig[0].popen(["sleep", "1000"])
    print(rig[0].processes()[0], flush=True)
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


@contextlib.contextmanager
def udp(machine: Machine, address: str) -> Iterator[socket.socket]:
    """A socket of a machine, which is patient."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with machine.inside():
        made = socket.socket(family, socket.SOCK_DGRAM)
    with made:
        made.bind((address, 0))
        made.settimeout(LIMIT_S)
        yield made


def hears(
    receiver: Machine, sender: Machine, *, ipv6: bool = False, within_s: float = LIMIT_S
) -> bool:
    """Whether a datagram arrives."""
    there, here = (m.ipv6 if ipv6 else m.address for m in (receiver, sender))
    with udp(receiver, there) as ear, udp(sender, here) as mouth:
        mouth.sendto(b"hello", ear.getsockname()[:2])
        ear.settimeout(within_s)
        with contextlib.suppress(TimeoutError):
            return ear.recv(100) == b"hello"
    return False


def is_deaf(receiver: Machine, sender: Machine, *, ipv6: bool = False) -> bool:
    """Whether no datagram arrives."""
    return not hears(receiver, sender, ipv6=ipv6, within_s=SILENT_S)


@contextlib.contextmanager
def connected(
    one: Machine, other: Machine
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection that one makes to the other."""
    with other.inside():
        listener = socket.create_server((other.address, 0))
    with listener:
        with one.inside():
            mine = socket.create_connection(listener.getsockname()[:2], LIMIT_S)
        theirs, _ = listener.accept()
    with mine, theirs:
        theirs.settimeout(LIMIT_S)
        yield mine, theirs


def wait_echo(prober: Machine, address: str) -> bool:
    """Whether the echo of another machine answers; it may be starting."""
    deadline = Deadline(SystemClock(), LIMIT_S)
    with udp(prober, prober.address) as probe:
        probe.settimeout(SILENT_S)
        while not deadline.is_over():
            probe.sendto(b"?", (address, PORT))
            with contextlib.suppress(TimeoutError):
                return probe.recv(100) == b"?"
    return False


def echo(machine: Machine, log: Path | None = None) -> None:
    """Start it on a machine, as the child of a child in another session."""
    script = f'setsid "{sys.executable}" -S -c "$0" & wait'
    machine.popen(["sh", "-c", script, ECHO], log)


def devices() -> list[str]:
    """Of the network that this thread is in."""
    return [name for _, name in socket.if_nameindex()]


def seconds_to_send(sender: Machine, receiver: Machine, num_bytes: int) -> float:
    """How long that many bytes take to arrive."""
    clock = SystemClock()
    with connected(sender, receiver) as (mouth, ear):
        start_s = clock.now_s()
        left = num_bytes
        mouth.setblocking(False)
        waiting = memoryview(bytes(num_bytes))
        while left:
            with contextlib.suppress(BlockingIOError):
                waiting = waiting[mouth.send(waiting) :] if waiting else waiting
            ear.settimeout(0.01 if waiting else LIMIT_S)
            with contextlib.suppress(TimeoutError):
                left -= len(ear.recv(1 << 20))
        return clock.now_s() - start_s


@needs_machines
def test_all_reach_each_other_by_ipv4_and_ipv6_and_the_host_has_nothing_of_it() -> None:
    before = devices()
    with Machines(3) as rig:
        for one, other in ((rig[0], rig[1]), (rig[1], rig[2]), (rig[2], rig[0])):
            assert hears(one, other)
            assert hears(other, one, ipv6=True)
        with connected(rig[0], rig[2]) as (mine, theirs):
            mine.sendall(b"x")
            assert theirs.recv(1) == b"x"
        assert devices() == before
        with rig[1].inside():
            assert devices() == ["lo", rigs.DEVICE]
        assert devices() == before
    assert not [path for path in NAMES.iterdir() if path.name.startswith(own_name(""))]


@needs_machines
def test_a_machine_of_ipv6_alone_has_no_other_address() -> None:
    with Machines(2, ipv6_only=True) as (one, other):
        assert (one.ipv4, one.address) == ("", one.ipv6)
        assert hears(one, other)
        told = one.run(["ip", "-4", "address", "show", "dev", rigs.DEVICE])
        assert not told
        assert one.ipv6 in one.run(["ip", "-6", "address", "show", "dev", rigs.DEVICE])


@needs_machines
def test_who_is_cut_off_hears_nobody_until_it_is_healed() -> None:
    with Machines(3) as (one, other, third), connected(one, other) as (mine, theirs):
        other.cut()
        assert is_deaf(other, one)
        assert is_deaf(one, other)
        assert is_deaf(one, other, ipv6=True)
        assert hears(third, one)
        mine.sendall(b"late")
        theirs.settimeout(SILENT_S)
        with pytest.raises(TimeoutError):
            theirs.recv(4)

        other.heal()
        assert hears(other, one)
        theirs.settimeout(LIMIT_S)
        assert theirs.recv(4) == b"late"
        assert hears(one, other, ipv6=True)


@needs_machines
@pytest.mark.parametrize("healer", [0, 1])
def test_one_way_is_one_way(healer: int) -> None:
    with Machines(3) as rig:
        sender, receiver, third = rig
        sender.cut_one_way(receiver)
        for ipv6 in (False, True):
            assert is_deaf(receiver, sender, ipv6=ipv6)
            assert hears(sender, receiver, ipv6=ipv6)
            assert hears(third, sender, ipv6=ipv6)
            assert hears(receiver, third, ipv6=ipv6)

        rig[healer].heal()
        assert hears(receiver, sender)
        assert hears(receiver, sender, ipv6=True)


@needs_machines
def test_a_request_is_heard_and_its_answer_arrives_when_the_way_is_healed() -> None:
    with Machines(2) as (one, other), connected(one, other) as (mine, theirs):
        other.cut_one_way(one)
        mine.sendall(b"request")
        assert theirs.recv(100) == b"request"
        theirs.sendall(b"answer")
        mine.settimeout(SILENT_S)
        with pytest.raises(TimeoutError):
            mine.recv(100)

        other.heal()
        mine.settimeout(LIMIT_S)
        assert mine.recv(100) == b"answer"


@needs_machines
def test_a_slow_link_is_slow_both_ways() -> None:
    with Machines(2) as (one, other):
        one.slow(80e6)
        assert 0.95 < seconds_to_send(one, other, 10 << 20) < 10
        assert 0.19 < seconds_to_send(other, one, 2 << 20) < 10
        one.slow(1e6)
        one.slow(None)
        assert seconds_to_send(one, other, 10 << 20) < 10  # of 80


@needs_machines
@pytest.mark.parametrize("ipv6", [False, True])
def test_a_narrow_way_loses_what_is_large(*, ipv6: bool) -> None:
    with Machines(2) as (one, other):
        own, address = (one.ipv6, other.ipv6) if ipv6 else (one.ipv4, other.ipv4)
        other.narrow(1300)
        with udp(one, own) as sends, udp(other, address) as receives:
            place = receives.getsockname()[:2]
            sends.sendto(bytes(1400), place)
            sends.sendto(bytes(1200), place)
            assert len(receives.recv(2000)) == 1200
            receives.sendto(bytes(1400), sends.getsockname()[:2])
            assert len(sends.recv(2000)) == 1400


@needs_machines
def test_who_hangs_answers_when_it_is_awake_again() -> None:
    with Machines(2) as (one, other):
        echo(other)
        assert wait_echo(one, other.address)
        other.hang()
        with udp(one, one.address) as probe:
            probe.sendto(b"late", (other.address, PORT))
            probe.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                probe.recv(100)
            assert len(other.processes()) == 2

            other.wake()
            probe.settimeout(LIMIT_S)
            assert probe.recv(100) == b"late"


@needs_machines
def test_who_is_killed_leaves_no_process_and_no_last_word() -> None:
    with Machines(2) as (one, other):
        with other.inside():
            listener = socket.create_server((other.address, PORT))
        with listener:  # the tests' own copy goes first
            child = other.popen(
                [
                    sys.executable,
                    "-S",
                    "-c",
                    "import socket; s = socket.socket(fileno=0); "
                    "c, _ = s.accept(); c.sendall(b'here'); s.accept()",
                ],
                stdin=listener.fileno(),
            )
        echo(other)
        assert wait_echo(one, other.address)
        with one.inside():
            mine = socket.create_connection((other.address, PORT), LIMIT_S)
        with mine:
            assert mine.recv(100) == b"here"
            alive = other.processes()
            assert len(alive) == 3

            other.kill()
            assert other.processes() == []
            assert all(pid == child.pid or is_gone(pid) for pid in alive)
            assert child.wait(LIMIT_S) == -signal.SIGKILL
            mine.settimeout(SILENT_S)
            with pytest.raises(TimeoutError):
                mine.recv(100)
        with one.inside():
            assert one.processes() == []  # the tests' own is none

        other.heal()
        echo(other)
        assert wait_echo(one, other.address)


@needs_machines
def test_a_process_has_its_environment_and_its_output_in_a_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Machines(1) as (one,):
        environment = {**os.environ, "GREETING": "hello"}
        command = ["sh", "-c", "echo $GREETING; pwd; read line; echo $line >&2"]
        child = one.popen(
            command, log, stdin=subprocess.PIPE, env=environment, cwd=tmp_path
        )
        child.communicate(b"end\n", LIMIT_S)
        assert log.read_text() == f"hello\n{tmp_path}\nend\n"


@needs_machines
def test_a_failed_command_is_named_with_all_it_said() -> None:
    with Machines(1) as (one,):
        assert one.run(["echo", "well"]) == "well\n"
        with pytest.raises(MachineError, match=r"(?s)sh -c .*status 3: out.*err"):
            one.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        with pytest.raises(MachineError, match=r"(?s)not over after 0.2 s; said"):
            one.run(["sh", "-c", "echo said; exec sleep 100"], timeout_s=0.2)
        with pytest.raises(
            MachineError, match=r"tc -n paceline-.* rate -1bit .*: tbf: the "
        ):
            one.slow(-1)


@needs_machines
def test_nothing_is_left_of_a_rig_when_its_test_fails() -> None:
    pids: list[int] = []

    def fail(rig: Machines) -> None:
        with rig:
            echo(rig[1])
            rig[1].popen(["sleep", "1000"], stdin=subprocess.PIPE)
            rig[1].hang()
            pids.extend(rig[1].processes())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(Machines(2))
    assert pids
    assert all(is_gone(pid) for pid in pids)
    assert not [path for path in NAMES.iterdir() if path.name.startswith(own_name(""))]


@needs_machines
def test_two_rigs_never_meet() -> None:
    with Machines(2) as rig, Machines(2) as other:
        for each in (rig, other):
            echo(each[1])
            assert wait_echo(each[0], each[1].address)
        rig[1].kill()
        assert wait_echo(other[0], other[1].address)
        with (
            udp(rig[0], rig[0].address) as probe,
            pytest.raises(OSError, match="nreachable"),
        ):
            probe.sendto(b"?", (other[1].address, PORT))


@needs_machines
def test_what_a_killed_test_has_left_is_swept_and_what_lives_is_not() -> None:
    command = [sys.executable, "-c", LEAVES_A_RIG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        kept = int(living.stdout.readline())  # type: ignore[union-attr]
        with subprocess.Popen([*command, "kill"], stdout=subprocess.PIPE) as killed:
            left = int(killed.stdout.readline())  # type: ignore[union-attr]
            assert killed.wait(LIMIT_S) == -signal.SIGKILL
        names = [path.name for path in NAMES.glob(f"paceline-{killed.pid}-*")]
        assert len(names) == 2
        assert not is_gone(left)

        assert set(names) <= set(sweep_namespaces())
        assert is_gone(left)
        assert not list(NAMES.glob(f"paceline-{killed.pid}-*"))
        assert not is_gone(kept)
        living.communicate(timeout=LIMIT_S)
    assert is_gone(kept)


def test_without_tools_it_is_said_why_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    why_no_machines.cache_clear()
    assert "ip netns add" in why_no_machines()
    assert "not installed; it is in iproute2" in why_no_machines()
    why_no_machines.cache_clear()


def test_a_rig_of_no_machine_is_refused() -> None:
    with pytest.raises(UsageError, match="expected 1 to 200 machines, got 0"):
        Machines(0)
