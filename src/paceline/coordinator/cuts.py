"""Cuts: one checkpoint at a time, the queue copied before the slots.

::

    begun      the queue is copied; no round closes from here on
    snapshot   every server writes its slots, at exactly the rounds of the copy
    manifest   the service writes the manifest: the commit point
    committed  journalled; servers forget marks of tasks that the copy shows done

A task that ends after the copy is ``pending`` in it and complete by its marks in the
slots: after a return it is recognised. The other order would lose it.

Pure.
"""

from typing import NamedTuple, final

from paceline.coordinator.durable import Durable
from paceline.coordinator.queue import decode_queue, encode_queue
from paceline.coordinator.tasks import is_epoch_over, returned_records
from paceline.ids import cut_folder
from paceline.messages import CutReport, FileEntry, PartPlan

RETRY_S = 5.0


class ManifestOrder(NamedTuple):
    """Everything that a cut's manifest says; written by the service."""

    cut: int
    timeline: int
    queue: bytes
    rounds: dict[int, int]
    plans: tuple[PartPlan, ...]
    files: dict[str, tuple[FileEntry, ...]]
    ends_stage: bool


@final
class OpenCut:
    """A cut that is being taken."""

    def __init__(self, cut: int, state: Durable, *, ends_stage: bool) -> None:
        """Copy the queue, before any slot is copied."""
        self.cut = cut
        self.timeline = state.timeline
        self.ends_stage = ends_stage
        self.rounds = state.committed_rounds()
        self.plans = tuple(p.plan for _, p in sorted(state.parts.items()) if p.is_ready)
        self.servers = frozenset(state.servers)
        self.folder = cut_folder(cut, state.timeline)
        self.queue = encode_queue(state.queue)
        if ends_stage:
            queue = decode_queue(self.queue)
            queue.epochs_done += is_epoch_over(state)
            queue.records += returned_records(state)  # of tasks left when it was stopped
            queue.next_stage()
            self.queue = encode_queue(queue)
        self._files: dict[str, tuple[FileEntry, ...]] = {}

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
        )
