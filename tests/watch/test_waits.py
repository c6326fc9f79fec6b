"""Who holds a job up, and that the progress line says so."""

import msgspec
import pytest

from paceline.messages.waits import Wait
from paceline.messages.watching import JobStatus, ProcessStatus
from paceline.watch.progress import open_show
from paceline.watch.pulse import Rate, one_line, standstill, waited_for
from tests.watch.test_progress import Terminal, status


def process(role: str, wait: Wait | None = None) -> ProcessStatus:
    kind = role.split("-")[0]
    return ProcessStatus(kind, role, 1, 7, "host", "", "ready", 0, 0, wait)


def wait(kind: str, *whom: str, since_s: float = 15.0) -> Wait:
    return Wait(kind, "since it is so", whom, since_s=since_s)  # type: ignore[arg-type]  # one of them


def test_who_waits_for_nobody_is_who_is_waited_for() -> None:
    [found] = waited_for(
        [
            process("trainer-0", wait("round", "trainer-1", "trainer-2")),
            process("trainer-1", wait("lock", "trainer-2", since_s=20.0)),
            process("trainer-2"),
        ]
    )
    assert found.role == "trainer-2"
    assert found.by == ("trainer-1", "trainer-0")
    assert found.longest.kind == "lock"


def test_who_is_not_there_is_waited_for_too() -> None:
    [found] = waited_for([process("trainer-0", wait("servers", "server-1"))])
    assert found.role == "server-1"


def test_of_a_circle_all_are_told() -> None:
    circle = [
        process("trainer-0", wait("lock", "trainer-1")),
        process("trainer-1", wait("lock", "trainer-0")),
    ]
    assert [one.role for one in waited_for(circle)] == ["trainer-0", "trainer-1"]


def test_first_comes_whom_most_wait_for() -> None:
    found = waited_for(
        [
            process("trainer-0", wait("lock", "trainer-8", since_s=99.0)),
            process("trainer-1", wait("round", "trainer-9")),
            process("trainer-2", wait("round", "trainer-9")),
        ]
    )
    assert [one.role for one in found] == ["trainer-9", "trainer-8"]


def test_waits_of_every_step_are_not_told() -> None:
    assert waited_for([process("trainer-0", wait("round", "x", since_s=0.5))]) == []


def test_a_wait_is_told_with_some_names_of_those_who_wait_the_longest_first() -> None:
    waiting = [
        process(f"trainer-{n}", wait("round", "trainer-9", since_s=300.0 + n))
        for n in range(3)
    ]
    (found,) = waited_for(waiting)
    (of_nobody,) = waited_for([process("trainer-0", wait("cut"))])

    told = "trainer-9 is waited for (round) by"
    assert (
        found.described()
        == f"{told} trainer-2, trainer-1, trainer-0, the longest since 5 min"
    )
    assert (
        found.described(most=1) == f"{told} trainer-2 and 2 others, the longest since 5 min"
    )
    assert of_nobody.described() == "waiting (cut) by trainer-0, the longest since 15 s"


@pytest.mark.parametrize(("stands_s", "since_s"), [(9.0, 15.0), (15.0, 9.0)])
def test_nothing_stands_still_before_ten_seconds(stands_s: float, since_s: float) -> None:
    waiting = [process("trainer-0", wait("round", "trainer-1", since_s=since_s))]
    assert standstill(waiting, stands_s) is None


def held_up() -> JobStatus:
    waiting = process("trainer-0", wait("round", "trainer-1"))
    return msgspec.structs.replace(status(100), processes=(waiting, process("trainer-1")))


def test_a_line_of_a_job_that_stands_still_says_for_whom() -> None:
    told = one_line(held_up(), 0.0, restarts=0, seconds=20.0, stands_s=12.0)
    assert told.startswith(
        "20 s  100 of 20,000 records (0 %)  waits for trainer-1 (round, 15 s)  epoch 2"
    )
    assert "waits" not in one_line(held_up(), 9.0, restarts=0, seconds=20.0)


def test_a_narrow_terminal_has_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    bar = open_show(terminal)
    for now in (0.0, 12.0):
        bar.show(held_up(), 0, now)
    bar.close()
    assert "records (0 %)  waits for trainer-1 (round, 15 s)  " in terminal.getvalue()


def test_a_wait_for_nobody_that_is_known_is_told_as_it_is() -> None:
    assert standstill([process("trainer-0", wait("cut"))], 15.0) == "waits (cut, 15 s)"


def test_a_count_stands_still_from_when_it_was_another() -> None:
    rate = Rate()
    for second in range(10):
        rate.note(status(second), float(second))
        assert rate.stands_s() == 0.0
    for second in range(10, 30):
        rate.note(status(9), float(second))
    assert rate.stands_s() == 20.0
