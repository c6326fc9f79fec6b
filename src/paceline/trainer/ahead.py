"""Leases behind those whose batches await their step, for who takes batches ahead.

Pure.
"""

from typing import final

from paceline.messages import AskLease, Granted, StageSpec
from paceline.trainer.asking import Act, Asking
from paceline.trainer.leases import Leases, LeaseWork
from paceline.trainer.parts import SharedPart
from paceline.trainer.verdicts import Batch


@final
class LeasesAhead:
    """What comes behind the batches that were delivered."""

    def __init__(
        self, asking: Asking, leases: Leases, parts: dict[int, SharedPart]
    ) -> None:
        """Of one trainer, whose own these are."""
        self._asking, self._leases, self._parts = asking, leases, parts

    def peek(self, stage: StageSpec, number: int) -> Batch | None:
        """The batch after ``number`` more of all leases that are held; None: unknown."""
        return self._leases.peek_on(stage, number)

    def ask(self, stage: StageSpec) -> Act[bool]:
        """Ask for one more lease while others are worked on; whether there was one."""
        held = self._leases.held(tuple(self._parts))
        ask = AskLease(**self._asking.who(), stage=stage.stage, held=held, is_open=True)
        reply = yield from self._asking.ask_once(ask)
        return isinstance(reply, Granted) and self._leases.add(LeaseWork(reply.lease))
