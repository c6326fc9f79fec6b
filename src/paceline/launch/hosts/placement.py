"""On which host a role runs, and which wait until one has room.

::

    coordinator    with the launcher
    servers        spread: where there are the fewest, then where cores are freest; again
                   where they were, while that host is there: their shards are in its memory
    trainers       where cores are freest; again where they were, unless cores are freer
                   elsewhere, as on a machine that has joined since
    cut off        a role again, but not where others did not reach it
    no room        a host takes so many servers and trainers at most: the role waits

Pure: time is an argument.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, final

from paceline.ids import first_few, role_kind

TELL_EVERY_S = 60.0  # who waits for room, while nothing changes
FORGET_S = 5.0  # whoever was not looked for so long is not wanted any more


class Capacity(NamedTuple):
    """At most so many servers and trainers on a machine; None: any number."""

    servers: int | None = None
    trainers: int | None = None

    def most(self, kind: str) -> int | None:
        """Of a kind of role."""
        return self.servers if kind == "server" else self.trainers

    def __str__(self) -> str:
        """In words; empty if it takes any number of both."""
        told = [
            f"at most {most} {kind}{'' if most == 1 else 's'}"
            for kind, most in (("server", self.servers), ("trainer", self.trainers))
            if most is not None
        ]
        return ", ".join(told)


class HostRoom(NamedTuple):
    """What a host has for roles."""

    cores: int
    capacity: Capacity = Capacity()


def place(role: str, at: Mapping[str, str], rooms: Mapping[str, HostRoom]) -> str | None:
    """The host for a role; None: none has room.

    ``at`` says where roles are, {role: host}, this one if it was somewhere; ``rooms`` has
    all hosts. The first is the launcher's; of hosts that are alike the first is chosen.
    """
    assert rooms, "the launcher's own host is always there"
    kind = role_kind(role)
    if kind == "coordinator":
        return next(iter(rooms))
    others = {other: host for other, host in at.items() if other != role}
    all_there = Counter(others.values())
    alike = Counter(host for other, host in others.items() if role_kind(other) == kind)

    def has_room(host: str) -> bool:
        most = rooms[host].capacity.most(kind)
        return most is None or alike[host] < most

    last = at.get(role, "")
    if kind == "server" and last in rooms and has_room(last):
        return last

    def freest(host: str) -> tuple[float, bool, float]:
        shared = (all_there[host] + 1) / rooms[host].cores
        if kind == "server":
            return alike[host], True, shared
        return (alike[host] + 1) / rooms[host].cores, host != last, shared

    return min(filter(has_room, rooms), key=freest, default=None)


@final
class WaitingRoles:
    """Roles for which no host has room, and since when each waits."""

    def __init__(self) -> None:
        """None does."""
        self._since: dict[str, float] = {}
        self._asked: dict[str, float] = {}  # when each was last looked for
        self._told: tuple[str, ...] = ()
        self._told_s = 0.0

    def note(self, role: str, now: float) -> float:
        """A role has found no room; for how many seconds it has not by now."""
        self._asked[role] = now
        return now - self._since.setdefault(role, now)

    def found(self, role: str) -> None:
        """A role has found room."""
        self._since.pop(role, None)

    def tell(self, rooms: Mapping[str, HostRoom], now: float) -> str | None:
        """Who waits for what, if that is news, or has not been said for a minute."""
        for role in [r for r in self._since if now - self._asked[r] > FORGET_S]:
            self.found(role)
        waiting = tuple(sorted(self._since))
        is_news = waiting != self._told or now - self._told_s >= TELL_EVERY_S
        self._told = waiting
        if not waiting or not is_news:
            return None
        self._told_s = now
        return self.standing(rooms, now)

    def standing(self, rooms: Mapping[str, HostRoom], now: float) -> str:
        """Who waits for what, as it is now; empty if nobody does."""
        if not self._since:
            return ""
        since_s = now - min(self._since.values())
        waiting = first_few(sorted(self._since))
        return f"waiting for {since_s:.0f} s to start {waiting}: {no_room(rooms)}"


def no_room(rooms: Mapping[str, HostRoom]) -> str:
    """Why nothing more has a place, and what would help."""
    told = [
        f"{host} takes {str(room.capacity) or 'any number'}" for host, room in rooms.items()
    ]
    return (
        f"no machine has room for more ({first_few(told, '; ')}): start paceline host on "
        "another machine, or on one that takes more (--servers, --trainers)"
    )
