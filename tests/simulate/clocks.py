"""What clocks promise, checked from histories (Ho 2013, section 3).

A trainer that begins a step at clock ``c``, in a part of staleness ``s``:

* is at most ``s`` ahead of everybody who holds a lease;
* computes on values that have all acknowledged pushes up to clock ``c - s`` in them;
* and all of its own;
* has entered, if it held no lease, at the clock of the slowest, or before it;
  or at its own, if it only goes from one task to the next.

What values have in them is known from what their server had applied when it answered.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple, final

import msgspec

from paceline.messages.data import Pulled
from paceline.messages.shared import Lease
from tests.simulate.checks import Violation


class Seen(Pulled, frozen=True):
    """Values, with the last push of each trainer that is in them."""

    pushes: dict[int, int] = msgspec.field(default_factory=dict)  # {incarnation: number}


class Holder(NamedTuple):
    """Somebody who holds a lease, and the clock that it has entered at, at least."""

    incarnation: int
    clock: int


@final
class ClockHistory:
    """Clocks, pushes and reads of all trainers of a run.

    Attributes:
        num_reads: steps that were begun on values that were checked.
    """

    def __init__(self) -> None:
        """Nothing has happened."""
        self.num_reads = 0
        self._clocks: dict[tuple[int, int], int] = {}  # {(timeline, incarnation): clock}
        self._pushes: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
        self._read: dict[tuple[int, int], dict[str, dict[int, int]]] = {}

    def entered(
        self, timeline: int, incarnation: int, lease: Lease, others: Iterable[Holder]
    ) -> None:
        """A trainer holds a lease, and held none.

        Raises:
            Violation: it is ahead of somebody, and did not come so far by itself.
        """
        own = self._clocks.get((timeline, incarnation), 0)
        for other in others:
            clock = self._clock(timeline, other)
            if other.incarnation != incarnation and lease.clock > max(clock, own):
                raise Violation(
                    f"{incarnation} has entered at clock {lease.clock}, ahead of "
                    f"{other.incarnation} at {clock}"
                )
        if lease.clock < own:
            for key in [k for k in self._pushes if k[:2] == (timeline, incarnation)]:
                del self._pushes[key]
        self._clocks[timeline, incarnation] = lease.clock

    def pushed(
        self, timeline: int, incarnation: int, part: int, number: int, clock: int
    ) -> None:
        """All servers have acknowledged a push, which brings its sender to a clock."""
        clocks, numbers = self._pushes.setdefault((timeline, incarnation, part), ([], []))
        if not numbers or number > numbers[-1]:
            clocks.append(clock)
            numbers.append(number)

    def ticked(self, timeline: int, incarnation: int, clock: int) -> None:
        """A trainer has finished a step in all parts."""
        self._clocks[timeline, incarnation] = clock

    def read(self, incarnation: int, part: int, server: str, values: Pulled) -> None:
        """Values have arrived."""
        if isinstance(values, Seen):
            self._read.setdefault((incarnation, part), {})[server] = values.pushes

    def began(
        self,
        timeline: int,
        incarnation: int,
        clock: int,
        staleness: dict[int, int],
        holders: Iterable[Holder],
    ) -> None:
        """A trainer begins a step.

        Args:
            timeline: that it is on.
            incarnation: its own.
            clock: its own.
            staleness: ``{part: steps}``, of parts that have one.
            holders: all who hold a lease.

        Raises:
            Violation: see above.
        """
        bound = min(staleness.values())
        for holder in holders:
            ahead = clock - self._clock(timeline, holder)
            if holder.incarnation != incarnation and ahead > bound:
                raise Violation(
                    f"{incarnation} begins at clock {clock}, {ahead} ahead of "
                    f"{holder.incarnation}; {bound} is allowed"
                )
        for part, allowed in staleness.items():
            self.num_reads += 1
            for server, pushes in self._read.get((incarnation, part), {}).items():
                for key, (clocks, numbers) in self._pushes.items():
                    if key[0] != timeline or key[2] != part:
                        continue
                    until = clock if key[1] == incarnation else clock - allowed
                    count = bisect_right(clocks, until)
                    if count and pushes.get(key[1], 0) < numbers[count - 1]:
                        raise Violation(
                            f"{incarnation} begins at clock {clock} on values of {server} "
                            f"without push {numbers[count - 1]} of {key[1]} to part "
                            f"{part}, of clock {clocks[count - 1]}; {allowed} is allowed"
                        )

    def _clock(self, timeline: int, holder: Holder) -> int:
        known = self._clocks.get((timeline, holder.incarnation), 0)
        return max(known, holder.clock)
