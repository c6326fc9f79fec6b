"""Where trainers come by themselves, hosts have room for those who are there."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paceline.launch.guests import GuestHall
from paceline.launch.hosts.door import Wanted
from paceline.launch.supervise import NoRoom, Start
from paceline.messages.hosts import HostJoined
from tests.launch.hosts.test_door import COMING, Doors, due, within


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A door, with guests of its own machine whose number is `here.trainers`."""
    here = SimpleNamespace(trainers=0, others=-1)
    made = Doors(tmp_path)
    guests = cast("GuestHall", here)
    made.door._wanted = Wanted(1, 60.0, trainers=1, guests=guests)
    yield SimpleNamespace(door=made.door, doors=made, here=here)
    monkeypatch.setattr("paceline.launch.hosts.door.TELL_S", 0.0)
    made.door.close()


def no_guest(wanted: Start) -> NoRoom:
    """The one that was counted has gone meanwhile."""
    return NoRoom(wanted.role)


def test_without_a_guest_a_trainer_waits_and_nobody_is_told_to_start_machines(
    one: Any,
) -> None:
    assert one.door.start(due("trainer-0"), no_guest) == NoRoom("trainer-0")
    one.doors.clock.advance(120.0)
    assert one.door.start(due("trainer-0"), no_guest) == NoRoom("trainer-0")
    within(lambda: one.here.others == 0)
    assert one.doors.said == []


def test_a_role_goes_to_the_machine_whose_guests_wait(one: Any) -> None:
    asked: list[str] = []

    def at_home(wanted: Start) -> NoRoom:
        asked.append(wanted.role)
        return NoRoom(wanted.role)

    assert isinstance(one.doors.ask(COMING), HostJoined)
    one.doors.report(trainers=1)
    one.here.trainers = 1

    for number in range(3):
        one.door.start(due(f"trainer-{number}"), at_home)

    assert len(asked) == 1, "the guest of the launcher's own machine"
    orders = one.doors.report(trainers=1)
    assert [wished.role for wished in orders.processes.values()] in (
        ["trainer-0"],
        ["trainer-1"],
    )
    within(lambda: one.here.others == 1)


def test_a_machine_whose_guests_are_away_gets_no_trainer(one: Any) -> None:
    one.doors.ask(COMING)
    one.doors.report(trainers=2)
    one.doors.report(trainers=0)

    assert one.door.start(due("trainer-0"), no_guest) == NoRoom("trainer-0")
    assert one.doors.report(trainers=0).processes == {}
