"""An operator in the wind tunnel: asks for another pace now and then, until it is so."""

from typing import NamedTuple, final

from paceline.config import Pace
from paceline.ids import COORDINATOR, OPERATOR
from paceline.messages.shared import Done, Message, Refusal
from paceline.messages.watching import ChangePace
from tests.simulate.world import Answer, SimProcess, World

TIMEOUT_S = 2.0


class PaceChange(NamedTuple):
    """At a moment a part, or all (-1), are to have another pace."""

    at_s: float
    pace: Pace
    part: int = -1


@final
class SimOperator(SimProcess):
    """One process that outlives all others.

    Attributes:
        done: changes that were carried out; refused ones are not among them.
    """

    def __init__(self, world: World, changes: tuple[PaceChange, ...]) -> None:
        """Ask for one change after the other."""
        super().__init__(world, OPERATOR)
        self.done: list[PaceChange] = []
        self._changes = list(changes)
        self._begin()

    def received(self, sender: str, message: Message, answer: Answer) -> None:
        """Nobody asks an operator."""
        raise AssertionError(f"{sender} asked {message!r} of the operator: {answer}")

    def _begin(self) -> None:
        if self._changes:
            wait_s = max(0.0, self._changes[0].at_s - self.world.now_s)
            self.after(wait_s, self._ask)

    def _ask(self) -> None:
        [change, *_] = self._changes
        part = "" if change.part < 0 else str(change.part)
        message = ChangePace(pace=change.pace, part=part)
        self.ask(COORDINATOR, message, self._got, TIMEOUT_S)

    def _got(self, reply: Message | None) -> None:
        if isinstance(reply, Done):
            self.done.append(self._changes[0])
        if isinstance(reply, Done | Refusal):
            del self._changes[0]
            self._begin()
        else:
            self.after(0.05, self._ask)
