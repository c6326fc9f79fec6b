"""Cuts: one checkpoint at a time, the queue copied before the slots.

::

    begun      the queue is copied; no round closes from here on
    pinned     every server holds a snapshot at exactly the rounds of the copy; rounds go on
    written    every server has written its snapshot
    manifest   the service writes the manifest: the commit point
    committed  journalled; servers forget marks of tasks that the copy shows done

A task that ends after the copy is ``pending`` in it and complete by its marks in the
slots: after a return it is recognised. The other order would lose it.

Pure.
"""

from typing import NamedTuple, final

from paceline.coordinator.durable import Durable, decode_queue, encode_queue, open_stage
from paceline.coordinator.ledgers.tasks import (
    is_epoch_over,
    returned_records,
    untrained_records,
)
from paceline.ids import cut_folder
from paceline.messages.server import CutReport, FileEntry
from paceline.messages.shared import PartPlan

RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
# Storage that hangs is given up: a cut that never ends would be the last one.
LIMIT_S = 1800.0


class ManifestOrder(NamedTuple):
    """Everything that a cut's manifest says; written by the service."""

    cut: int
    timeline: int
    queue: bytes
    rounds: dict[int, int]
    plans: tuple[PartPlan, ...]
    files: dict[str, tuple[FileEntry, ...]]
    ends_stage: bool
    records: int
    steps: int


class Counted(NamedTuple):
    """What a job has done up to a moment: acknowledged records, and steps."""

    records: int
    steps: int


def pause_after(failures: int) -> float:
    """Seconds until the next cut is tried, after so many failures in a row."""
    return min(RETRY_S * 2.0 ** min(failures - 1, 10), LONGEST_RETRY_S)


@final
class OpenCut:
    """A cut that is being taken."""

    def __init__(
        self, cut: int, state: Durable, counted: Counted, now: float, *, ends_stage: bool
    ) -> None:
        """Copy the queue, before any slot is copied."""
        self.cut = cut
        self.limit_s = LIMIT_S
        self.until_s = now + LIMIT_S
        self.counted = counted
        self.timeline = state.timeline
        self.ends_stage = ends_stage
        self.rounds = state.committed_rounds()
        self.steps = {trainer: dict(step) for trainer, step in state.steps.items()}
        self.plans = tuple(p.plan for _, p in sorted(state.parts.items()) if p.is_ready)
        self.servers = frozenset(state.servers)
        self.folder = cut_folder(cut, state.timeline)
        self.queue = encode_queue(state.queue)
        if ends_stage:
            queue = decode_queue(self.queue)
            spec = state.stage_spec()
            queue.epochs_done += (
                is_epoch_over(state) and spec is not None and spec.is_training
            )
            queue.records += returned_records(state)  # of tasks left when it was stopped
            queue.leave_out(0 if state.stopped is not None else untrained_records(state))
            queue.next_stage()
            queue.stage = open_stage(state, queue.stage)
            self.queue = encode_queue(queue)
        self._pinned: set[str] = set()
        self._files: dict[str, tuple[FileEntry, ...]] = {}

    def pin(self, server: str) -> None:
        """A server holds its snapshot: whatever is applied there now is not in the cut."""
        self._pinned.add(server)

    def is_pinned(self) -> bool:
        """Whether all servers hold their snapshots, so that rounds may close."""
        return self.servers <= self._pinned | self._files.keys()

    def reported(self, server: str, report: CutReport) -> None:
        """A server has written its share."""
        self._files[server] = report.files

    def awaits(self, server: str) -> bool:
        """Whether a server still has to write its share."""
        return server in self.servers and server not in self._files

    def missing(self) -> list[str]:
        """Servers that still have to write their share."""
        return sorted(self.servers - self._files.keys())

    def manifest(self) -> ManifestOrder:
        """What the manifest says, once nobody is missing."""
        assert not self.missing()
        return ManifestOrder(
            self.cut,
            self.timeline,
            self.queue,
            self.rounds,
            self.plans,
            dict(self._files),
            self.ends_stage,
            *self.counted,
        )
