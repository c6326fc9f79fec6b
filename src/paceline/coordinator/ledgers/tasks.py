"""The task queue: what may be leased, how far it is, when an epoch is over.

``todo -> pending -> done | failed`` (seed: paddle_training_job). An epoch is over only
when ``todo`` and ``pending`` are empty and no task waits for a lost trainer's marks;
this is looked at after every event. A lease that makes no progress expires after a time
learned from measured durations: ``clamp(10 * (median + 6 * MAD) * records, 60 s, 1 h)``.

Pure.
"""

import math
import statistics
from collections import deque
from typing import NamedTuple, final

import msgspec
from msgspec.structs import replace

from paceline.coordinator.durable import Durable, Queue
from paceline.coordinator.durable.outcomes import Resume
from paceline.ids import NO_BATCH, TaskKey
from paceline.messages.shared import StageSpec

FLOOR_S = 60.0
CEILING_S = 3600.0
KEPT_DURATIONS = 256


class Pick(NamedTuple):
    """A task that may be leased now, and where it goes on."""

    key: TaskKey
    resume: Resume


def pick_task(state: Durable) -> Pick | None:
    """The next task of ``todo``: returned ones first, in their original order."""
    spec, queue = state.stage_spec(), state.queue
    if spec is None:
        return None
    if queue.returned:
        task = queue.returned[0]
    elif queue.next_fresh < spec.num_tasks():
        task = queue.next_fresh
    else:
        return None
    return pick_of(state, task)


def pick_of(state: Durable, task: int) -> Pick:
    """A task of the current epoch, and where it goes on."""
    key = TaskKey(state.queue.stage, state.queue.epoch, task)
    return Pick(key, state.resumes.get(key) or Resume(key, 0, ()))


def num_todo(state: Durable) -> int:
    """Tasks that nobody works on; those that wait for marks are among them."""
    spec, queue = state.stage_spec(), state.queue
    if spec is None:
        return 0
    settling = sum(len(keys) for keys in state.settling.values())
    return len(queue.returned) + spec.num_tasks() - queue.next_fresh + settling


def returned_records(state: Durable) -> int:
    """Records of returned tasks that are acknowledged: where those tasks go on."""
    queue = state.queue
    if not queue.returned:
        return 0
    spec = state.stage_spec()
    if spec is None:
        return 0
    now = (queue.stage, queue.epoch)
    return sum(
        spec.batch_records(key.task, 0, resume.first - 1)
        for key, resume in state.resumes.items()
        if resume.first and (key.stage, key.epoch) == now and queue.is_returned(key.task)
    )


def held_records(state: Durable, incarnation: int) -> int:
    """Records of the tasks that a trainer holds."""
    spec, held = state.stage_spec(), state.queue.held_by(incarnation)
    return 0 if spec is None else sum(map(spec.task_records, held))


def untrained_records(state: Durable) -> int:
    """Records of the current loop that no batch counts for, in this epoch and later ones.

    Those of tasks that were given up are not among them.
    """
    spec, queue = state.stage_spec(), state.queue
    if spec is None or not spec.is_training:
        return 0
    open_tasks = {*queue.open, *queue.returned}
    if spec.rotation is None:
        fresh = max(0, spec.records - queue.next_fresh * spec.task_size)
    else:
        fresh = sum(spec.rotation.sizes[queue.next_fresh :])
    now = fresh + sum(map(spec.task_records, open_tasks)) - returned_records(state)
    return now + spec.records * (spec.epochs - queue.epoch - 1)


def is_epoch_over(state: Durable) -> bool:
    """Whether every task of the epoch is done or given up."""
    if state.queue.pending or state.stage_spec() is None:
        return False
    return num_todo(state) == 0


def is_last_epoch(state: Durable) -> bool:
    """Whether the stage ends with the current epoch."""
    spec = state.stage_spec()
    return spec is not None and state.queue.epoch + 1 >= spec.epochs


@final
class TaskProgress:
    """How far each open task is: told anew by its trainer after a restart."""

    def __init__(self) -> None:
        """Know nothing."""
        self.records = 0  # acknowledged, of all open tasks
        self._acked: dict[TaskKey, int] = {}  # {task: last batch, in every part}

    def advance(self, spec: StageSpec, key: TaskKey, last: int) -> int:
        """All batches up to ``last`` are acknowledged in every part; the last that is."""
        before = self._acked.get(key, NO_BATCH)
        if last <= before:
            return before
        self._acked[key] = last
        self.records += spec.batch_records(key.task, before + 1, last)
        return last

    def last_acked(self, key: TaskKey) -> int:
        """The last batch known to be acknowledged in every part."""
        return self._acked.get(key, NO_BATCH)

    def forget(self, spec: StageSpec, key: TaskKey) -> None:
        """A task is over, or back in ``todo``."""
        last = self._acked.pop(key, NO_BATCH)
        self.records -= spec.batch_records(key.task, 0, last)

    def clear(self) -> None:
        """Nothing is open any more (a return to a cut)."""
        self._acked.clear()
        self.records = 0


class _Running(msgspec.Struct, frozen=True):
    """A lease's clock: since when it runs, and what it allows."""

    since_s: float
    least_s: float  # however little is held
    limit_s: float  # a record

    def due_s(self, records: int) -> float:
        """When its time is over, for whoever holds so many records."""
        return self.since_s + max(min(self.limit_s * records, CEILING_S), self.least_s)


@final
class Deadlines:
    """When a lease without progress is over; waiting in a round stops its clock.

    Who has not finished a batch yet may take longer for it: models are compiled in it, and
    caches filled. It says nothing of the batches that follow, and is not measured.
    """

    def __init__(self, first_batch_s: float) -> None:
        """Start with no measurement; ``first_batch_s``: what a first batch may take."""
        self.first_batch_s = first_batch_s
        self._have_begun: set[int] = set()  # incarnations that have finished a batch
        self._per_record_s: deque[float] = deque(maxlen=KEPT_DURATIONS)
        self._until_sorted = 1  # durations, until the limit is looked for again
        self._limit_s = 0.0  # per record, from the durations
        self._floor_s = FLOOR_S
        self._running: dict[int, _Running] = {}  # {incarnation: its lease's clock}
        self._first_due_s = math.inf  # before then nobody's time is over

    def goes_on(self, incarnation: int, queue: Queue, now: float) -> None:
        """A trainer goes on; what it holds is to be done in a time that runs from now."""
        if not queue.does_hold(incarnation):
            self.pause(incarnation)
            return
        least_s = self.first_batch_s if self.is_first(incarnation) else self._floor_s
        self._running[incarnation] = _Running(now, least_s, self._limit_s)
        if now + least_s < self._first_due_s:
            self._first_due_s = now + least_s

    def is_first(self, incarnation: int) -> bool:
        """Whether a trainer is at the first batch of its membership."""
        return incarnation not in self._have_begun

    def has_begun(self, incarnation: int) -> None:
        """A trainer has finished a batch, which nobody has measured."""
        self._have_begun.add(incarnation)

    def progressed(self, incarnation: int, records: int, now: float) -> None:
        """A trainer has finished ``records`` records since its clock last started."""
        self._finished(incarnation, self._running.get(incarnation), records, now)

    def stopped(self, incarnation: int, records: int, now: float) -> None:
        """As `progressed`; then it waits for others."""
        self._finished(incarnation, self._running.pop(incarnation, None), records, now)

    def forget(self, incarnation: int) -> None:
        """A trainer is lost or gone."""
        self._running.pop(incarnation, None)
        self._have_begun.discard(incarnation)

    def _finished(
        self, incarnation: int, running: _Running | None, records: int, now: float
    ) -> None:
        if running is None or records <= 0:
            return
        if self.is_first(incarnation):
            self.has_begun(incarnation)
            return
        self._per_record_s.append((now - running.since_s) / records)
        self._until_sorted -= 1
        if not self._until_sorted:  # the median moves slowly, sorting does not
            is_full = len(self._per_record_s) == KEPT_DURATIONS
            self._until_sorted = KEPT_DURATIONS // 2 if is_full else 16
            median = statistics.median(self._per_record_s)
            spread = statistics.median([abs(d - median) for d in self._per_record_s])
            self._limit_s = 10 * (median + 6 * spread)

    def pause(self, incarnation: int) -> None:
        """A trainer waits for others, or holds nothing."""
        self._running.pop(incarnation, None)

    def excuse(self, seconds: float) -> None:
        """Nobody could be heard for so long: everyone has that much longer."""
        self._running = {
            incarnation: replace(running, since_s=running.since_s + seconds)
            for incarnation, running in self._running.items()
        }

    def expired(self, state: Durable, now: float) -> list[int]:
        """Incarnations whose time is over; those that come after them have twice as long.

        How long it is follows from what each holds; who holds nothing has no deadline.
        Else a first batch that takes longer than anybody was given (a model that is being
        compiled) would begin again elsewhere for ever.
        """
        if now < self._first_due_s:
            return []
        due_s = {
            incarnation: running.due_s(held_records(state, incarnation))
            for incarnation, running in self._running.items()
            if state.queue.does_hold(incarnation)
        }
        self._first_due_s = min(due_s.values(), default=math.inf)
        found = sorted(incarnation for incarnation, due in due_s.items() if due <= now)
        if any(not self.is_first(incarnation) for incarnation in found):
            self._floor_s = min(2 * self._floor_s, CEILING_S)
        if any(self.is_first(incarnation) for incarnation in found):
            self.first_batch_s = max(
                self.first_batch_s, min(2 * self.first_batch_s, CEILING_S)
            )
        return found
