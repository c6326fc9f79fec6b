"""Placing slots on servers, balanced by bytes.

::

    sizes 9 | 4 4 4 4 | 1        servers a b
    a: 9   4 4   1               largest first; slots of one size go round the servers,
    b:     4 4                   the lightest server first

Pure and deterministic; imports neither torch nor numpy.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from paceline.errors import UsageError


def num_row_slots(num_servers: int) -> int:
    """Slots over which the rows of a part are spread.

    Several per server, so that slots can move when servers are added later; few, since
    every slot that a batch touches costs a lookup of its own.
    """
    return max(16, 4 * num_servers)


def place_slots(
    sizes: Mapping[int, int],
    servers: Sequence[str],
    loads: Mapping[str, int] | None = None,
) -> dict[int, str]:
    """Give every slot a server: ``{slot: server id}``, ascending by slot.

    Servers differ by at most one in how many slots of any one size they hold, so row
    slots spread evenly; and in bytes by at most the largest slot, or by as much as
    ``loads`` differ already.

    Args:
        sizes: ``{slot: bytes}``.
        servers: ids; among equally loaded servers the earlier one is chosen.
        loads: ``{server id: bytes}`` that lie there already; absent means none.

    Raises:
        UsageError: there is no server to place slots on.
    """
    if not servers:
        raise UsageError(f"expected at least one server to place {len(sizes)} slots on")
    load = {server: (loads or {}).get(server, 0) for server in servers}
    placement: dict[int, str] = {}
    largest_first = sorted(sizes, key=lambda slot: (-sizes[slot], slot))
    for size, slots in groupby(largest_first, key=sizes.__getitem__):
        waiting = list(slots)
        while waiting:
            lightest_first = sorted(servers, key=load.__getitem__)
            for slot, server in zip(waiting, lightest_first, strict=False):
                placement[slot] = server
                load[server] += size
            waiting = waiting[len(servers) :]
    return dict(sorted(placement.items()))
