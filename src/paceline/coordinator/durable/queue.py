"""The tasks of the current epoch: todo, pending, done, failed.

Kept small whatever the epoch's length, and however slow its slowest task: tasks are leased
in the order of their numbers, so that ``todo`` is a few returned tasks and everything from
``next_fresh`` on, and over is everything before that but the few in ``open``. Cells of a
rotation are leased in the order of the ring: those passed over are as if returned.

Pure.
"""

import bisect
import functools
import itertools
from collections.abc import Container, Iterable, Mapping
from typing import final

import msgspec

from paceline.coordinator.durable.outcomes import ValuesTaken
from paceline.messages.results import KeptBytes
from paceline.messages.shared import Lease


@final
class LeaseRecord(msgspec.Struct):
    """A granted lease and its holder."""

    lease: Lease
    trainer: str
    incarnation: int


@final
class StageResults(msgspec.Struct, omit_defaults=True):
    """What has come of a stage of evaluation or prediction.

    Here is what is small; of what is large only where it lies, beside the cuts: a job that
    evaluates a thousand times has its values a thousand times in every cut.
    ``missing`` counts its tasks that were given up, once there is a value.
    """

    states: dict[int, bytes] = {}  # {task: its result}, until there is a value
    value: bytes | None = None
    missing: int = 0
    kept_states: dict[int, KeptBytes] = {}  # {task: where its result lies}
    kept: KeptBytes | None = None  # where the value lies

    def note(self, task: int, result: bytes | None, kept: KeptBytes | None) -> None:
        """A task has a result: here, or beside the cuts."""
        if kept is not None:
            self.kept_states[task] = kept
        elif result is not None:
            self.states[task] = result

    def has_value(self) -> bool:
        """Whether it has come to a value."""
        return self.value is not None or self.kept is not None

    def tasks(self) -> list[int]:
        """Those with a result, in order."""
        return sorted([*self.states, *self.kept_states])

    def bytes_of(self, task: int) -> int:
        """The size of a task's result."""
        kept = self.kept_states.get(task)
        return len(self.states[task]) if kept is None else kept.bytes

    def digests(self) -> set[str]:
        """Of all that lies beside the cuts."""
        kept = [*self.kept_states.values(), *([] if self.kept is None else [self.kept])]
        return {one.digest for one in kept}


@final
class Queue(msgspec.Struct, dict=True):  # what is cached beside the fields is not copied
    """The tasks of the current epoch. What a cut copies and a return brings back."""

    stage: int = 0
    epoch: int = 0
    next_fresh: int = 0
    returned: list[int] = []  # in the order of their numbers
    pending: dict[int, LeaseRecord] = {}  # {task: its lease}
    open: set[int] = set()  # leased in this epoch and not over; waiting for marks, too
    failed: set[int] = set()
    failures: dict[int, int] = {}  # {task: explicit failures in this epoch}
    timeouts: dict[int, int] = {}  # {task: expired leases in this epoch}
    crashes: dict[int, int] = {}  # {task: crashes of its holders in this epoch}
    epochs_done: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    records: int = 0
    results: dict[int, StageResults] = {}  # {stage: ...}, of those that do not train
    keepers: dict[int, str] = {}  # {data part: trainer that had a cell of it last}
    visits: dict[int, int] = {}  # {cell: times it was carried over in this epoch}
    values_set: int = 0  # calls of `Session.set_values` that the values have in them
    values_stage: int = -1  # that they were changed before, last
    values_setter: int = 0  # incarnation whose script did
    left_out: int = 0  # records of loops that all trainers had left, and gone on from
    left_epoch: int = 0  # where the first of these loops was left
    was_end_kept: bool = False  # in a cut: it is the state that a stage ended with

    def note_values(self, taken: ValuesTaken) -> None:
        """The values have what a call has set; or, unless it is -1, before a stage."""
        self.values_set = taken.call
        if taken.stage >= 0:
            self.values_stage, self.values_setter = taken.stage, taken.setter

    @functools.cached_property
    def _held(self) -> dict[int, dict[int, LeaseRecord]]:
        """``pending`` by incarnation, kept beside it from the first question on."""
        held: dict[int, dict[int, LeaseRecord]] = {}
        for task, record in self.pending.items():
            held.setdefault(record.incarnation, {})[task] = record
        return held

    def held_by(self, incarnation: int) -> Mapping[int, LeaseRecord]:
        """{task: lease} of one trainer, in the order of granting."""
        return self._held.get(incarnation, {})

    def holders(self, but: Container[str] = ()) -> set[str]:
        """Ids of the trainers that hold a lease, but these."""
        records = self.pending.values()
        return {record.trainer for record in records if record.trainer not in but}

    def first_holders(self, count: int) -> list[str]:
        """Ids of at most so many who hold one, those without a break for longest."""
        records = itertools.islice(self._held.values(), count)
        return [next(iter(held.values())).trainer for held in records]

    def entry_of(self, incarnation: int) -> int | None:
        """Token of the lease that a trainer has entered with; None if it holds none."""
        records = self._held.get(incarnation)
        return next(iter(records.values())).lease.entry if records else None

    def num_holders(self) -> int:
        """Trainers that hold a lease."""
        return len(self._held)

    def does_hold(self, incarnation: int) -> bool:
        """Whether a trainer holds a lease."""
        return incarnation in self._held

    def does_any_hold(self, incarnations: Iterable[int]) -> bool:
        """Whether one of these holds a lease."""
        return not self._held.keys().isdisjoint(incarnations)

    def lend(self, task: int, record: LeaseRecord) -> None:
        """A trainer works on a task, a returned one or the next fresh one."""
        self._leave_todo(task)
        self.open.add(task)
        self._held.setdefault(record.incarnation, {})[task] = record
        self.pending[task] = record

    def take_back(self, task: int) -> None:
        """Nobody works on a task any more."""
        held = self._held
        record = self.pending.pop(task, None)
        if record is not None:
            del held[record.incarnation][task]
            if not held[record.incarnation]:
                del held[record.incarnation]

    def is_returned(self, task: int) -> bool:
        """Whether a task was leased, or passed over, and nobody works on it."""
        place = bisect.bisect_left(self.returned, task)
        return self.returned[place : place + 1] == [task]

    def is_done(self, task: int) -> bool:
        """Whether a task of this epoch is done or given up."""
        return task < self.next_fresh and task not in self.open

    def num_done(self) -> int:
        """Tasks of this epoch that are done, those given up not counted."""
        return self.next_fresh - len(self.open) - len(self.failed)

    def count_crash(self, tasks: Iterable[int]) -> None:
        """Whoever worked on these has crashed."""
        for task in tasks:
            self.crashes[task] = self.crashes.get(task, 0) + 1

    def close(self, task: int) -> None:
        """Count a task among those that are over in this epoch."""
        self.take_back(task)
        self._leave_todo(task)
        self.open.discard(task)

    def put_back(self, task: int) -> None:
        """Put a task at the front of ``todo``, in the original order."""
        self.take_back(task)
        place = bisect.bisect_left(self.returned, task)
        if self.returned[place : place + 1] != [task]:
            self.returned.insert(place, task)

    def next_epoch(self) -> None:
        """Begin the next epoch; given-up tasks come back with fresh counters."""
        self.epoch += 1
        self.epochs_done += 1
        self._clear()

    def next_stage(self) -> None:
        """Begin the next stage."""
        self.stage += 1
        self.epoch = 0
        self.keepers = {}
        self._clear()

    def leave_out(self, records: int) -> None:
        """All trainers have gone on from a loop before so many of its records."""
        if records and not self.left_out:
            self.left_epoch = self.epoch
        self.left_out += records

    def keep_values(self, before: "Queue") -> None:
        """Keep what stages that are over here came to: a script may have been told."""
        for stage, results in before.results.items():
            if stage < self.stage and results.has_value():
                self.results[stage] = results

    def reopen(self) -> None:
        """Put every task that was being worked on back to ``todo``."""
        self._nobody_works()
        self.returned = sorted(self.open)

    def _clear(self) -> None:
        self.next_fresh = 0
        self.returned = []
        self.open = set()
        self._nobody_works()
        self.failed = set()
        self.failures = {}
        self.timeouts = {}
        self.crashes = {}
        self.visits = {}

    def _leave_todo(self, task: int) -> None:
        if task >= self.next_fresh:
            passed_over = range(self.next_fresh, task)
            self.returned.extend(passed_over)
            self.open.update(passed_over)
            self.next_fresh = task + 1
            return
        place = bisect.bisect_left(self.returned, task)
        if self.returned[place : place + 1] == [task]:
            del self.returned[place]

    def _nobody_works(self) -> None:
        self.pending = {}
        self._held.clear()


_decoder = msgspec.msgpack.Decoder(Queue)


def encode_queue(queue: Queue) -> bytes:
    """The copy of the queue that lies in a cut."""
    return msgspec.msgpack.encode(queue)


def decode_queue(data: bytes) -> Queue:
    """Read what `encode_queue` wrote."""
    return _decoder.decode(data)
