"""A step's push, from the open window to the values after it.

Pure.
"""

from typing import final

from paceline.messages import StageSpec, Ticked
from paceline.trainer.asking import Act, Asking
from paceline.trainer.leases import Leases
from paceline.trainer.parts import SharedPart
from paceline.trainer.pushing import (
    Acknowledged,
    Coming,
    collect_push,
    collect_values,
    post_push,
    post_values,
)
from paceline.trainer.ticking import Teller


@final
class Stepping:
    """Pushes of one trainer, and what is known of them.

    Attributes:
        tasks_finished: leases that this trainer has worked off.
    """

    def __init__(
        self, asking: Asking, teller: Teller, leases: Leases, parts: dict[int, SharedPart]
    ) -> None:
        """Nothing was pushed yet; leases and parts are the trainer's own."""
        self.tasks_finished = 0
        self._asking, self._teller = asking, teller
        self._leases, self._parts = leases, parts

    def push(
        self,
        part: SharedPart,
        stage: StageSpec,
        servers: tuple[str, ...],
        coming: Coming,
    ) -> Act[Ticked | None]:
        """Push a part's open window; values are pulled where the pace wants it.

        Returns:
            What the coordinator has answered, if it was told.
        """
        asking = self._asking
        push = yield from post_push(asking, part, servers)
        is_pulling = part.is_sync or part.pull_due()
        at_round = part.round if part.is_sync else 0
        values = yield from post_values(
            asking, part, servers, coming, at_round=at_round, with_dense=is_pulling
        )
        done = yield from collect_push(asking, push)
        ticked = yield from self._count(part, stage, done)
        is_current = done.is_first or part.is_sync
        yield from collect_values(asking, values, is_current=is_current)
        if is_pulling:
            part.pulled(at_round)
        return ticked

    def others_open(self, pushing: SharedPart) -> list[SharedPart]:
        """Other parts that await their push."""
        others = [part for part in self._parts.values() if part is not pushing]
        return [part for part in others if part.window.is_open()]

    def _count(
        self, part: SharedPart, stage: StageSpec, done: Acknowledged
    ) -> Act[Ticked | None]:
        """All servers have a window; the coordinator is told, if it should know now."""
        parts, others = tuple(self._parts), self.others_open(part)
        acked = self._leases.advance(part.spec.part, done.window, parts)
        self._teller.add(part, done, acked)
        num_complete = self._leases.drop_complete(parts, stage)
        self.tasks_finished += num_complete
        self._asking.clock += 1
        wants_lease = not (self._leases.current(stage) or others)
        must_tell = part.is_sync or num_complete or wants_lease
        if not must_tell and not self._teller.is_due(part):
            return None
        ticked = yield from self._teller.tell(
            part,
            is_prepared=done.is_prepared,
            ends_step=not any(other.is_sync for other in others),
            wants_lease=wants_lease,
        )
        part.round += part.is_sync
        return ticked
