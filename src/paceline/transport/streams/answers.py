"""Waiting for what comes on a socket: awake at first, where that is likely to be enough.

To be woken takes about as long as a small answer; who looks again and again instead needs a
core, which the peer may need as well. So a connection stays awake for `AWAKE_S` at most,
only where its last answer came soon, and not for a while after its thread was pushed off
its core: then there was none to spare.

Waits: in `AnswerWait.wait`. One thread at a time may call.
"""

import math
import select
from typing import Final, final

from paceline.timing import Clock
from paceline.transport.streams.pieces import AnySocket

try:
    import resource
except ImportError:  # Windows, where nobody waits so
    resource = None  # type: ignore[assignment]

AWAKE_S: Final = 50e-6
SOON_S: Final = 3 * AWAKE_S  # an answer within this would be worth it
MOST_LOOKS: Final = 100  # whatever the clock says
ASLEEP_WAITS: Final = 64  # so many waits, after there was no core to spare


@final
class Wakefulness:
    """Whether to stay awake for the next answer. Pure."""

    def __init__(self) -> None:
        self._is_soon = False
        self._switches = 0
        self._asleep = 0  # so many more waits

    def pays(self, switches: int) -> bool:
        """``switches``: how often this thread was pushed off its core, so far."""
        if switches != self._switches:
            self._switches, self._asleep = switches, ASLEEP_WAITS
        elif self._asleep:
            self._asleep -= 1
        return self._is_soon and not self._asleep

    def came(self, seconds: float) -> None:
        """An answer was there after so long."""
        self._is_soon = seconds <= SOON_S


@final
class AnswerWait:
    """Waits of one connection."""

    def __init__(self, sock: AnySocket, clock: Clock) -> None:
        self._clock = clock
        self._wakefulness = Wakefulness()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def wait(self, timeout_s: float) -> int:
        """Until something can be read: what there is, as `select.poll` says it; or 0."""
        began_s = self._clock.now_s()
        found: list[tuple[int, int]] = []
        if self._wakefulness.pays(_switches()):
            for _ in range(MOST_LOOKS):
                found = self._poll.poll(0)
                if found or self._clock.now_s() >= began_s + AWAKE_S:
                    break
        found = found or self._poll.poll(math.ceil(timeout_s * 1000))
        self._wakefulness.came(self._clock.now_s() - began_s)
        return sum(events for _, events in found)


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
