"""Leases behind those whose batches await their step, for who takes batches ahead.

::

    held      what comes is looked up; nobody is asked
    Granted   one more lease behind them
    Waiting   for a moment (servers return, a lost trainer's marks are read): asked again
    is_spent  nothing comes before steps have moved the loop on
    no lease  all that was delivered is gone: what is leased now is no batch behind it

Pure.
"""

from typing import Final, Literal, final

from paceline.messages.shared import StageSpec, Waiting
from paceline.messages.trainer import AskLease, Granted
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings.leases import Leases, LeaseWork
from paceline.trainer.holdings.parts import SharedPart
from paceline.trainer.verdicts import Batch

Nothing = Literal["spent", "lost"]
_SPENT: Final = "spent"
_LOST: Final = "lost"


@final
class LeasesAhead:
    """What comes behind the batches that were delivered."""

    def __init__(
        self, asking: Asking, leases: Leases, parts: dict[int, SharedPart]
    ) -> None:
        """Of one trainer, whose own these are."""
        self._asking, self._leases, self._parts = asking, leases, parts

    def find(self, stage: StageSpec, number: int) -> Act[Batch | Nothing]:
        """The batch after ``number`` more of all leases, of a new one if there is one.

        A batch awaits its step meanwhile, so a lease is held; or what was delivered is
        gone, and what is ahead of it too.
        """
        while self._leases:
            found = self._leases.peek_on(stage, number)
            if found is not None:
                return found
            if self._asking.stopped is not None or self._asking.pauses:
                return _SPENT
            reply = yield from self._asking.ask_once(self._ask(stage))
            if isinstance(reply, Granted):
                self._leases.add(LeaseWork(reply.lease))
            elif not isinstance(reply, Waiting) or reply.is_spent:
                return _SPENT
        is_lost = any(part.forgotten for part in self._parts.values())
        return _LOST if is_lost else _SPENT

    def _ask(self, stage: StageSpec) -> AskLease:
        return AskLease(
            **self._asking.who(),
            stage=stage.stage,
            held=self._leases.held(tuple(self._parts)),
            is_open=True,
            is_ahead=True,
        )
