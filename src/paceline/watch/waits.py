"""Who holds up a job: whom others wait for, and who itself waits for nobody.

::

    trainer-0 waits for trainer-1, trainer-1 for server-0     server-0 is waited for

Pure.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paceline.messages.waits import Wait
from paceline.messages.watching import ProcessStatus

LEAST_S = 1.0  # shorter ones belong to every step
STANDSTILL_S = 10.0  # then the progress line tells


class WaitedFor(NamedTuple):
    """A role that is waited for; ``by`` whom, the longest of these waits first."""

    role: str  # empty: nobody knows whom
    by: tuple[str, ...]
    longest: Wait


def waited_for(
    processes: Sequence[ProcessStatus], least_s: float = LEAST_S
) -> list[WaitedFor]:
    """Who is waited for, and waits for nobody: first whom most wait for.

    Where all wait in a circle, all of it is told; waits shorter than ``least_s`` are none.
    """
    waiting = {p.id: p.wait for p in processes if p.wait and p.wait.since_s >= least_s}
    found: dict[str, list[str]] = {}  # {role: who waits for it}
    for waiter, wait in waiting.items():
        for role in wait.whom or ("",):
            found.setdefault(role, []).append(waiter)
    at_end = {role: by for role, by in found.items() if role not in waiting} or found
    told = []
    for role, waiters in at_end.items():
        by = sorted(waiters, key=lambda one: (-waiting[one].since_s, one))
        told.append(WaitedFor(role, tuple(by), waiting[by[0]]))
    return sorted(told, key=lambda one: (-len(one.by), -one.longest.since_s, one.role))


def standstill(processes: Sequence[ProcessStatus], stands_s: float) -> str | None:
    """A clause on who is waited for, if records have stood still for too long."""
    told = waited_for(processes, STANDSTILL_S) if stands_s >= STANDSTILL_S else []
    if not told:
        return None
    role, _, longest = told[0]
    others = f" and {len(told) - 1} others" if len(told) > 1 else ""
    whom = f"for {role}{others} " if role else ""
    return f"waits {whom}({longest.kind}, {longest.since_s:.0f} s)"
