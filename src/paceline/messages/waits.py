"""What somebody waits for: whom, since when, and why.

Who tells of a wait counts its seconds by a clock of its own, from when it began: that it
was asked about again meanwhile changes nothing.

Pure.
"""

import heapq
from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

MOST_NAMED = 8  # roles, in one wait

WaitKind = Literal[  # what is waited for
    "members",  # trainers that have not come to the job, or to a rotation, yet
    "stage",  # trainers that are still in an earlier loop or evaluation
    "lease",  # who has the epoch's last tasks: one of them may come back
    "block",  # who has the block, or the data part, of a rotation
    "round",  # who has not come to the round of a step
    "clock",  # the slowest trainer, where the pace bounds how far others may be ahead
    "exchange",  # trainers, for values that travel between them
    "lock",  # who has the rows
    "values",  # who sends a part's first values, or sets new ones
    "state",  # who keeps tracked objects, or float buffers, for a cut
    "cut",  # who takes a cut, or that a failed one is tried again
    "pace",  # who has to rest before the pace may change
    "servers",  # servers: they come, return to a cut, fence a lost trainer, or answer
    "coordinator",  # the coordinator's answer
    "launcher",  # that the launcher hears of it
    "events",  # events of other trainers, or room where an event is sent to
    "ranks",  # another process of the same trainer
    "disk",  # room on a disk
]


class Wait(msgspec.Struct, frozen=True):
    """A wait: of which kind, and why.

    ``whom`` are role ids, ascending and `MOST_NAMED` at most, and ``more`` how many others
    are waited for as well. ``since_s`` is how long already, when it was told.
    """

    kind: WaitKind
    reason: str
    whom: tuple[str, ...] = ()
    more: int = 0
    since_s: float = 0.0

    def lasting(self, since_s: float) -> "Wait":
        """The same, told so many seconds after it began."""
        return Wait(self.kind, self.reason, self.whom, self.more, round(since_s, 3))

    def named(self) -> str:
        """Who is waited for, in a few words; empty if that is not known."""
        return listed(self.whom, len(self.whom) + self.more) if self.whom else ""


def wait_for(kind: WaitKind, reason: str, roles: Collection[str] = ()) -> Wait:
    """A wait for all of these, the first of them by name."""
    whom = tuple(heapq.nsmallest(MOST_NAMED, roles))
    return Wait(kind, reason, whom, len(roles) - len(whom))


def first_of(waits: Sequence[Wait]) -> Wait:
    """The first of these, with all that are waited for in the same way."""
    first = waits[0]
    roles = {role for wait in waits if wait.kind == first.kind for role in wait.whom}
    return wait_for(first.kind, first.reason, roles)


def named(roles: Collection[str]) -> str:
    """The first of these by name, and how many others there are."""
    return listed(heapq.nsmallest(MOST_NAMED, roles), len(roles))


def listed(names: Collection[str], count: int) -> str:
    """These names, of ``count``."""
    others = count - len(names)
    return (", ".join(names) or "nobody") + (f" and {others} others" if others else "")
