"""On which host a role runs.

::

    coordinator    with the launcher
    a role again   where it was, while that host is there: its files are in that memory;
                   not where it was cut off from others
    servers        spread: where there are the fewest, then where cores are freest
    trainers       by cores: where they would share the fewest

Pure.
"""

from collections import Counter
from collections.abc import Mapping

from paceline.ids import role_kind


def place(role: str, at: Mapping[str, str], cores: Mapping[str, int]) -> str:
    """The host for a role, given where roles are, {role: host}, and all hosts' cores.

    The first host is the launcher's; of hosts that are alike the first is chosen.
    """
    assert cores, "the launcher's own host is always there"
    if role_kind(role) == "coordinator":
        return next(iter(cores))
    last = at.get(role, "")
    if last in cores:
        return last
    all_there = Counter(host for other, host in at.items() if other != role)
    alike = Counter(
        host
        for other, host in at.items()
        if other != role and role_kind(other) == role_kind(role)
    )

    def freest(host: str) -> tuple[float, float]:
        shared = (all_there[host] + 1) / cores[host]
        if role_kind(role) == "server":
            return alike[host], shared
        return (alike[host] + 1) / cores[host], shared

    return min(cores, key=freest)
