"""What may go wrong in a simulated run, and how often.

Pure.
"""

from random import Random
from typing import NamedTuple, final


class FaultRates(NamedTuple):
    """Probabilities per message or per act, while the fault phase lasts.

    ``crash`` is per act of a role (a message handled, a step between two writes);
    ``leave`` and ``freeze`` per act of a trainer; ``clog`` per message: what one role
    sends another is held up for a while, with all that follows. ``damage`` is per share of
    a cut that is written. The delays are seconds.
    """

    loss: float = 0.03
    repeat: float = 0.05
    slow: float = 0.02
    delay_s: float = 0.004
    slow_s: float = 0.5
    crash_trainer: float = 0.012
    crash_server: float = 0.002
    crash_coordinator: float = 0.005
    leave: float = 0.002
    freeze: float = 0.003
    freeze_s: float = 4.0
    clog: float = 0.002
    clog_s: float = 3.0
    damage: float = 0.1


QUIET = FaultRates(0, 0, 0, 0.001, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@final
class Faults:
    """Seeded misfortune, counted: a run whose faults did not happen proves nothing."""

    def __init__(self, random: Random, rates: FaultRates) -> None:
        """Draw from ``random`` at these rates until `heal`."""
        self._random = random
        self._rates = rates
        self._chances = rates._asdict()  # {fault: probability}; empty once healed
        self.counts: dict[str, int] = {}  # {fault: times injected}

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._chances = {}

    def happens(self, fault: str) -> bool:
        """Whether a fault, named like its rate, happens now."""
        if not self._chances or self._random.random() >= self._chances[fault]:
            return False
        self.counts[fault] = self.counts.get(fault, 0) + 1
        return True

    def delay_s(self) -> float:
        """How long a message takes."""
        slow_s = self._rates.slow_s if self.happens("slow") else 0.0
        base_s = self._rates.delay_s
        return base_s * (0.5 + self._random.random()) + slow_s * self._random.random()

    def freeze_s(self) -> float:
        """How long a frozen trainer stays so."""
        return self._rates.freeze_s * (0.5 + self._random.random())

    def clog_s(self) -> float:
        """How long a clogged link holds up what it carries."""
        return self._rates.clog_s * self._random.random()
