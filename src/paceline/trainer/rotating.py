"""A trainer's way through a rotation, where tasks are cells of data and a table.

::

    visit       the batches of a cell that one window can have, from the next one on
    deliver     how many of them were trained: the window has these
    carry_over  time was up: the block goes on, and the rest waits for its next visit
    ahead       the question for the next cell while this one is computed; any thread asks

Pure.
"""

from typing import NamedTuple, final

from paceline.ids import TaskKey
from paceline.messages import AskLease, HandBack, Lease, StageSpec
from paceline.trainer.asking import Asking
from paceline.trainer.leases import Leases, LeaseWork
from paceline.trainer.parts import SharedPart


class Standing(NamedTuple):
    """Who the trainer was when it asked: what it was told holds as long as it is that."""

    incarnation: int
    timeline: int


@final
class Rotation:
    """The acts of one trainer in rotations."""

    def __init__(
        self, asking: Asking, leases: Leases, parts: dict[int, SharedPart]
    ) -> None:
        """Leases and parts are the trainer's own."""
        self._asking, self._leases, self._parts = asking, leases, parts

    @property
    def standing(self) -> Standing:
        """Who the trainer is now."""
        return Standing(self._asking.incarnation, self._asking.timeline)

    def visit(self, stage: StageSpec, key: TaskKey, first: int) -> int:
        """The last batch of a cell that a window from ``first`` on can have.

        Batches that are known to some server already go in a window of their own.
        """
        work = self._work_on(key)
        edges = [edge for edge in work.lease.edges if edge >= first]
        return min([*edges, stage.num_batches(key.task) - 1])

    def deliver(self, stage: StageSpec, key: TaskKey, last: int) -> None:
        """Batches up to ``last`` are in the user's hands, too."""
        work = self._work_on(key)
        while work.next_batch <= last:
            batch = self._leases.deliver(work)
            records = stage.batch_records(key.task, batch, batch)
            for part in self._parts.values():
                part.deliver(work.lease, batch, records)

    def holds(self, key: TaskKey) -> bool:
        """Whether a cell is this trainer's still: it may have joined again meanwhile."""
        return self._leases.of(key) is not None

    def lease_of(self, key: TaskKey) -> Lease:
        """The lease of a cell that is held."""
        return self._work_on(key).lease

    def is_moved(self, key: TaskKey) -> bool:
        """Whether somebody else had a cell of the data part before this one."""
        return self._work_on(key).lease.is_moved

    def num_held(self) -> int:
        """Cells that are held."""
        return len(self._leases.held(()))

    def carry_over(self, key: TaskKey) -> HandBack | None:
        """Hold a cell no longer whose time is over: what to tell of it, if it was held.

        All that was trained of it is acknowledged.
        """
        work = self._leases.drop(key)
        if work is None:
            return None
        acked, tokens = (work.acked(tuple(self._parts)),), (work.lease.token,)
        return HandBack(**self._asking.who(), tokens=tokens, acked=acked, is_carried=True)

    def ahead(self, stage: StageSpec) -> AskLease:
        """The question for one more cell."""
        held = self._leases.held(tuple(self._parts))
        return AskLease(**self._asking.who(), stage=stage.stage, held=held)

    def take(self, lease: Lease, standing: Standing) -> None:
        """A lease that was asked for ahead is held from now on, unless it is void.

        One that the trainer enters with is asked for once more, by `next_batch`: entering
        is more than holding a lease.
        """
        if standing == self.standing and lease.entry != lease.token:
            self._leases.add(LeaseWork(lease))

    def _work_on(self, key: TaskKey) -> LeaseWork:
        work = self._leases.of(key)
        assert work is not None, f"{key} is held while it is visited"
        return work
