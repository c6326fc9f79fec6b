"""Cuts: one checkpoint at a time, the queue copied before the slots.

::

    begun      the queue is copied; no round closes from here on
    pinned     every server holds a snapshot at exactly the rounds of the copy; rounds go on
    written    every server has written its snapshot
    manifest   the service writes the manifest: the commit point
    committed  journalled; servers forget marks of tasks that the copy shows done

A task that ends after the copy is ``pending`` in it and complete by its marks in the
slots: after a return it is recognised. The other order would lose it.

What trainers keep at servers, to be in a cut: state of tracked objects, and buffers to be
averaged.

Pure.
"""

from typing import NamedTuple, final

from msgspec.structs import replace

from paceline.coordinator.durable import Durable, decode_queue, encode_queue, open_stage
from paceline.coordinator.durable.outcomes import CutCommitted
from paceline.coordinator.ledgers.tasks import (
    is_epoch_over,
    returned_records,
    untrained_records,
)
from paceline.ids import cut_folder
from paceline.messages.server import CutReport, FileEntry
from paceline.messages.shared import AverageShare, PartPlan
from paceline.pace.policy import outer_parts

RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
# Storage that hangs is given up: a cut that never ends would be the last one.
LIMIT_S = 1800.0
MOST_WISHES = 16


class ManifestOrder(NamedTuple):
    """A cut that its manifest is to make true; written by the service."""

    cut: CutCommitted
    plans: tuple[PartPlan, ...]
    records: int


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
        self.queue = encode_queue(replace(state.queue, was_end_kept=state.is_end_kept))
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
            queue.was_end_kept = True
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
        cut = CutCommitted(
            self.cut,
            self.timeline,
            self.folder,
            self.queue,
            self.rounds,
            dict(self._files),
            tuple(plan.spec.part for plan in self.plans),
            self.ends_stage,
            self.counted.steps,
            outer_parts(self.plans),
        )
        return ManifestOrder(cut, self.plans, self.counted.records)


@final
class Cuts:
    """The cut that is taken, the last one, and how it goes with cuts that fail."""

    def __init__(self, now: float) -> None:
        self.open: OpenCut | None = None
        self.is_writing = False  # the manifest of the open one is being written
        self.last_s = now  # when one was committed last
        self.retry_s = now  # none is begun before
        self.trouble_s = now  # since when they fail
        self.num_failed = 0  # in a row
        self.trouble: str | None = None  # why the last one failed, if it did
        self.why = ""  # the bare reason
        self.awaited_s: float | None = None  # since when work stands still for one
        self.sought: str | None = None  # folder of the one that an older one is sought for
        # {(incarnation, number of its save): cut}
        self.of_saves: dict[tuple[int, int], int] = {}
        self.of_wishes: dict[str, int | None] = {}  # {wish: cut}; None: not begun
        self.is_saving = False  # the launcher ends the run early
        self.last_save: int | None = None  # the cut that was begun for it

    def failed(self, cut: int, reason: str, now: float) -> float:
        """The open one is given up; in how many seconds another is tried."""
        self.open = None
        self.num_failed += 1
        if self.trouble is None:
            self.trouble_s = now
        self.trouble, self.why = f"cut {cut} failed: {reason}", reason
        self.forget_saves_in(cut)
        pause_s = pause_after(self.num_failed)
        self.retry_s = now + pause_s
        return pause_s

    def taken(self, now: float) -> None:
        """The open one is committed."""
        self.open, self.last_s = None, now
        self.num_failed, self.trouble, self.awaited_s = 0, None, None

    def note_wait(self, now: float, *, waits: bool) -> None:
        """Whether work goes on only with a cut, while cuts fail."""
        if not waits:
            self.awaited_s = None
        elif self.awaited_s is None:
            self.awaited_s = now

    def wish(self, wish: str) -> None:
        """An operator wants a cut that begins from now on; of many, the last are known."""
        self.of_wishes.setdefault(wish, None)
        while len(self.of_wishes) > MOST_WISHES:
            del self.of_wishes[next(iter(self.of_wishes))]

    def is_wished(self) -> bool:
        """Whether a cut is to begin because an operator wants one."""
        return None in self.of_wishes.values()

    def begun_for_wishes(self, cut: int) -> None:
        """Whatever is wished so far will be in this one."""
        for wish, begun in self.of_wishes.items():
            self.of_wishes[wish] = cut if begun is None else begun

    def forget_saves_in(self, cut: int) -> None:
        """A cut, and what came behind it, is not: whoever waited for it wants another."""
        gone = [
            w for w, begun in self.of_wishes.items() if begun is not None and begun >= cut
        ]
        for wish in gone:  # who still waits for it says it again
            del self.of_wishes[wish]
        self.of_saves = {k: number for k, number in self.of_saves.items() if number < cut}
        if self.last_save is not None and self.last_save >= cut:
            self.last_save = None

    def forget(self, incarnation: int) -> None:
        """A trainer is gone."""
        for key in [key for key in self.of_saves if key[0] == incarnation]:
            del self.of_saves[key]

    def drop(self) -> None:
        """The timeline is left: what was open is void."""
        if self.open is not None:
            self.forget_saves_in(self.open.cut)
            self.open = None


@final
class Keeping:
    """Whose state counts, who is asked to keep it, and what is kept to be averaged."""

    def __init__(self, *, is_fresh: bool) -> None:
        self.entered: set[int] = set()  # incarnations that have held a lease
        self.is_fresh = is_fresh  # nothing was applied since state was kept
        self.track_from: int | None = None  # incarnation that is to keep its state
        self.tracking_s: float | None = None  # since when a cut waits for that
        self.buffers: dict[int, AverageShare] = {}  # {incarnation: what it has kept}
        self.averaging_s: float | None = None  # since when the end of a stage waits
        self.average_by: int | None = None  # incarnation that is to average
        self.is_averaged = False  # the state that counts holds the average

    def applied(self) -> None:
        """Something is applied: what trainers have kept is of an earlier moment."""
        self.is_fresh = False
        self.forget_buffers()

    def forget_buffers(self) -> None:
        """What was kept to be averaged is of another moment."""
        self.buffers = {}
        self.averaging_s = self.average_by = None
        self.is_averaged = False

    def drop(self) -> None:
        """The timeline is left: servers have the state of the cut."""
        self.entered.clear()
        self.track_from = self.tracking_s = None
        self.is_fresh = True
        self.forget_buffers()
