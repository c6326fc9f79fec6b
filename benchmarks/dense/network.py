"""Two machines with a slow link between them.

::

    near: this process,                            far: whatever is started
    what it starts      --- tbf both ways ---      inside of `Link.far`

They are network namespaces (`paceline.testing.machines`). Processes on both see each other
by process id, so that a job must be kept from sharing memory across the link
(`harness.apart_now`).
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paceline.testing.machines import Machine, Machines


class Traffic(NamedTuple):
    """Bytes over a device since it was made, with all headers but the wire's own."""

    received: int
    sent: int


class Link(NamedTuple):
    """A link, and what it carries each way."""

    near: Machine
    far: Machine
    mbit_s: float

    def floor_s(self, num_bytes: float) -> float:
        """Seconds that so many bytes take on the link, one way."""
        return num_bytes * 8 / (self.mbit_s * 1e6)


@contextlib.contextmanager
def slow_link(mbit_s: float) -> Iterator[Link]:
    """The link; this thread is near meanwhile.

    Raises:
        MachineError: it cannot be made here.
    """
    with Machines(2) as (near, far):
        for machine in (near, far):  # whoever sends is slowed, before anything is dropped
            machine.slow(mbit_s * 1e6)
        with near.inside():
            yield Link(near, far, mbit_s)


def read_traffic(device: str, table: Path = Path("/proc/thread-self/net/dev")) -> Traffic:
    """What went over a device of this thread's machine.

    Raises:
        KeyError: it has no such device.
    """
    for line in table.read_text(encoding="ascii").splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == device:
            columns = numbers.split()
            return Traffic(received=int(columns[0]), sent=int(columns[8]))
    raise KeyError(f"{table}: no device {device!r}")
