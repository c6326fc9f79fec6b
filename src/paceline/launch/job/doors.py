"""Where a trainer's door may be, when it first needs one.

::

    unix   <private folder>/<trainer>.sock; a number in between, where a process of the same
           trainer that hangs has it still
    tcp    any free port of the host on which the coordinator is reached

The coordinator is told which it is; nobody else has to know.

Pure.
"""

from collections.abc import Sequence

from paceline.launch.job.environment import Place
from paceline.transport.address import TcpAddress, parse_address

MOST_DOORS = 10  # of one trainer: processes of it that hang, and the one that does not


def door_addresses(place: Place) -> Sequence[str]:
    """Addresses to try, in order."""
    coordinator = parse_address(place.coordinator)
    if isinstance(coordinator, TcpAddress):
        return [str(coordinator._replace(port=0))]
    names = [place.role, *(f"{place.role}.{n}" for n in range(1, MOST_DOORS))]
    return [f"unix:{place.sockets / name}.sock" for name in names]
