"""Guests get roles in their turn, and are watched, whoever their parent is."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from paceline.launch.guests import Arrive, GuestHall, GuestVisit, JobOver, hall
from paceline.launch.guests.guest import GuestProcess
from paceline.launch.processes import wait_any
from paceline.timing import SystemClock

SOON_S = 5.0
GUEST = """
import sys
from pathlib import Path
from paceline.launch.guests import Arrive, GuestVisit
visit = GuestVisit(Path(sys.argv[1]), Arrive(int(sys.argv[2])))
print(visit.wait_place(print), flush=True)
word = sys.stdin.readline().strip()
if word == "told":
    visit.told_to_leave()
elif word:
    sys.exit(visit.part(int(word), print))
"""


class Guests:
    """A hall, and processes that come to it."""

    def __init__(self, folder: Path) -> None:
        self.door, self.alone = folder / "door", threading.Event()
        self.hall = GuestHall(self.door, SystemClock(), 0.1, self.alone.set)
        self.processes: list[subprocess.Popen[str]] = []

    def come(self, parent: int = 0) -> "subprocess.Popen[str]":
        """A guest that this process has started, if no other parent is named."""
        before = self.hall.trainers
        process = subprocess.Popen(
            [sys.executable, "-c", GUEST, str(self.door), str(parent or os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        soon(lambda: self.hall.trainers == before + 1)
        return process

    def close(self) -> None:
        """Nobody is left."""
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self.hall.close()


def soon(is_so: Callable[[], object]) -> None:
    """Wait until it is so."""
    pause = threading.Event()
    for _ in range(int(SOON_S / 0.01)):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("not soon")


def seated(guests: Guests, role: str, variables: Mapping[str, str]) -> GuestProcess:
    """Whoever has got the role."""
    found = guests.hall.start(role, variables)
    assert found is not None
    return found


def say(process: "subprocess.Popen[str]", word: str) -> None:
    """How it is to part; empty: it ends without a word."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def heard(process: "subprocess.Popen[str]") -> str:
    """What it was told."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Guests]:
    found = Guests(tmp_path)
    yield found
    found.close()


pytestmark = pytest.mark.slow


def test_who_has_waited_longest_gets_the_role_and_what_it_says_counts(
    guests: Guests,
) -> None:
    assert guests.hall.start("trainer-0", {}) is None
    first, second = guests.come(), guests.come()

    one = seated(guests, "trainer-0", {"A": "1"})
    two = seated(guests, "trainer-1", {"A": "2"})

    assert (one.pid, two.pid) == (first.pid, second.pid)
    assert (heard(first), heard(second)) == ("{'A': '1'}", "{'A': '2'}")
    assert guests.hall.start("trainer-2", {}) is None
    say(first, "75")
    assert wait_any([one, two], SOON_S) == [one]
    assert one.reap() == 75
    assert guests.hall.trainers == 1


def test_who_dies_without_a_word_was_killed(guests: Guests) -> None:
    killed, silent = guests.come(), guests.come()
    one, two = seated(guests, "trainer-0", {}), seated(guests, "trainer-1", {})

    killed.kill()
    assert wait_any([one, two], SOON_S) == [one]
    say(silent, "")
    assert wait_any([two], SOON_S) == [two]

    assert [one.reap(), two.reap()] == [-signal.SIGKILL, -signal.SIGKILL]


def test_who_dies_once_it_was_told_to_leave_was_not_killed_by_anybody(
    guests: Guests,
) -> None:
    process = guests.come()
    one = seated(guests, "trainer-0", {})

    say(process, "told")

    assert wait_any([one], SOON_S) == [one]
    assert one.reap() == 75


def test_a_role_may_be_ended_and_told_that_the_job_was_in_vain(guests: Guests) -> None:
    process = guests.come()
    one = seated(guests, "trainer-0", {})
    heard(process)

    one.signal(signal.SIGCONT)  # any signal that lets it live
    say(process, "75")

    assert process.wait(SOON_S) == 1
    assert one.reap() == 75


def test_the_kernel_ends_who_is_to_be_killed(guests: Guests) -> None:
    process = guests.come()
    one = seated(guests, "trainer-0", {})

    one.signal(signal.SIGKILL)

    assert process.wait(SOON_S) == -signal.SIGKILL
    assert wait_any([one], SOON_S) == [one]
    one.signal(signal.SIGKILL)  # of nobody
    assert one.reap() == -signal.SIGKILL


def test_who_has_done_its_work_waits_for_the_end_and_who_waits_is_told(
    guests: Guests,
) -> None:
    done, waiting = guests.come(), guests.come()
    one = seated(guests, "trainer-0", {})
    heard(done)
    say(done, "0")
    assert wait_any([one], SOON_S) == [one]
    assert one.reap() == 0

    guests.hall.end(JobOver("as it was", 3))

    assert done.wait(SOON_S) == 3
    assert "as it was" in heard(waiting)
    late = GuestVisit(guests.door, Arrive(os.getpid()))
    assert late.wait_place(print) == JobOver("as it was", 3)
    late.close()


def test_who_means_another_job_is_told_so_and_keeps_nobody_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hall, "FIRST_S", 0.1)
    alone, door = threading.Event(), tmp_path / "door"

    def refuses(arrive: Arrive) -> str:
        return "another job" if arrive.wish == "b" else ""

    own = GuestHall(door, SystemClock(), 0.1, alone.set, refuses)
    other = GuestVisit(door, Arrive(os.getpid(), "12-1", "b"))

    assert other.wait_place(print) == JobOver("another job", 1)
    assert own.trainers == 0
    assert alone.wait(SOON_S)
    other.close()
    own.close()


def test_who_cannot_be_let_in_now_is_let_in_later(
    guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    accept = socket.socket.accept

    def fails_once(listener: socket.socket) -> object:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fails_once)

    guests.come()

    assert len(tries) > 1
    assert not guests.alone.is_set()


def test_a_hall_that_fails_says_so_and_its_guests_notice(
    guests: Guests, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise ValueError("as never before")

    process = guests.come()
    one = seated(guests, "trainer-0", {})
    heard(process)

    monkeypatch.setattr(GuestHall, "_look", fails)

    assert guests.alone.wait(SOON_S)
    assert wait_any([one], SOON_S) == [one]
    assert one.reap() == -signal.SIGKILL
    guests.hall.wait_left()  # for nobody
    assert guests.hall.start("trainer-1", {}) is None
    assert "as never before" in capfd.readouterr().err


def test_orphans_are_told_to_leave_then_killed_and_then_it_is_alone(
    guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hall, "ORPHAN_S", 0.3)
    with subprocess.Popen(["sleep", "60"]) as parent:
        process = guests.come(parent.pid)
        one = seated(guests, "trainer-0", {})
        assert not guests.alone.is_set()

        parent.kill()

    assert process.wait(SOON_S) in {-signal.SIGTERM, -signal.SIGKILL}
    assert wait_any([one], SOON_S) == [one]
    guests.hall.others = 1
    assert not guests.alone.wait(0.5)
    guests.hall.others = 0
    assert guests.alone.wait(SOON_S)
