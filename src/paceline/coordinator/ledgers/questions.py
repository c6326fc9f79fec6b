"""What the coordinator is asked and cannot answer yet, by what is asked for.

Pure.
"""

from typing import Any, final

import msgspec

from paceline.messages.shared import Message
from paceline.parking import ParkedQuestion, Parking


class Asker(msgspec.Struct, frozen=True):
    """Who asks, and the ticket under which the answer goes back."""

    role: str
    ticket: int


class Parked(ParkedQuestion, frozen=True):
    """A question that waits: who asked, and what."""

    ticket: int
    role: str
    message: Message


@final
class Questions:
    """All questions that wait, by what they ask for."""

    def __init__(self) -> None:
        self.leases: Parking[int, Parked] = Parking()  # {incarnation: AskLease}
        # {(incarnation, part): Tick}, and the same: Meet
        self.ticks: Parking[tuple[int, int], Parked] = Parking(is_looked_at=False)
        self.meets: Parking[tuple[int, int], Parked] = Parking(is_looked_at=False)
        self.ahead: Parking[int, Parked] = Parking()  # {incarnation: MayGoOn}
        self.shares: Parking[tuple[int, int], Parked] = Parking()  # the same: SharePart
        # Those of `CommitStep`, by incarnation.
        self.steps: Parking[int, Parked] = Parking(is_looked_at=False)
        self.saves: Parking[int, Parked] = Parking()  # {incarnation: Save}
        begun = (self.leases, self.ticks, self.meets)
        self.of_trainers: tuple[Parking[Any, Parked], ...]
        self.of_trainers = (*begun, self.ahead, self.shares, self.saves, self.steps)
        self.servers: Parking[str, Parked] = Parking()  # {server id: ServerReport}
        self.paces: Parking[int, Parked] = Parking()  # {ticket: ChangePace}
        self.cuts: Parking[int, Parked] = Parking()  # {ticket: TakeCut}
        # Of `Interrupt`, by ticket.
        self.interrupts: Parking[int, Parked] = Parking(is_looked_at=False)
        self.of_operators = (self.paces, self.cuts, self.interrupts)

    def forget(self, incarnation: int) -> None:
        """A trainer is gone: nobody waits for these answers."""
        for asked in (self.leases, self.saves, self.steps, self.ahead):
            asked.take(incarnation)
        for waiting in (self.ticks, self.shares, self.meets):
            for key in [key for key in waiting.asked if key[0] == incarnation]:
                waiting.take(key)

    def look_at_all(self) -> None:
        """Whoever waits is looked at again, as if everything had changed."""
        for asked in (*self.of_trainers, *self.of_operators):
            asked.look_at_all()
        self.servers.look_at_all()
