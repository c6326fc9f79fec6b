"""The leases that a trainer holds, how far each is, and how they come and go back.

Pure.
"""

from typing import Literal, final

from paceline.config import Combine
from paceline.ids import NO_BATCH, TaskKey, Window
from paceline.messages.shared import Lease, StageSpec, Waiting
from paceline.messages.trainer import AskLease, FailTask, Granted, HandBack
from paceline.trainer.acts import Act, Asking
from paceline.trainer.holdings.parts import OpenWindow, SharedPart
from paceline.trainer.verdicts import Batch

Nothing = Literal["spent", "lost"]


@final
class LeaseWork:
    """One lease, the next batch to deliver, and the last acknowledged one per part."""

    def __init__(self, lease: Lease, stage: StageSpec) -> None:
        self.lease, self.stage = lease, stage
        self.next_batch = lease.first
        self.num_batches = stage.num_batches(lease.key.task)
        self._acked: dict[int, int] = {}  # {part: last acknowledged batch}

    def begins_replay(self) -> bool:
        """Whether the next batch is the first, and some slots have applied it before.

        No window holds it together with batches of another task, which may be new.
        """
        return self.next_batch == self.lease.first and bool(self.lease.edges)

    def batch_records(self, batch: int) -> int:
        """Records of a batch of the task."""
        return self.stage.batch_records(self.lease.key.task, batch, batch)

    def advance(self, part: int, last: int) -> None:
        """Batches up to ``last`` are acknowledged in a part."""
        if last > self._acked.get(part, NO_BATCH):
            self._acked[part] = last

    def acked(self, parts: tuple[int, ...]) -> int:
        """The last batch acknowledged in every one of ``parts``."""
        before = self.lease.first - 1
        if len(parts) == 1:
            return self._acked.get(parts[0], before)
        return min((self._acked.get(part, before) for part in parts), default=before)


@final
class Leases:
    """All leases of a trainer, in the order in which they were granted."""

    def __init__(self) -> None:
        self._works: dict[int, LeaseWork] = {}  # {token: its lease}
        self.at_edge = False  # the last delivered batch must end its window

    def clear(self) -> None:
        """Hold none any more."""
        self._works.clear()
        self.at_edge = False

    def __bool__(self) -> bool:
        """Whether any lease is held."""
        return bool(self._works)

    def held(self, parts: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Every lease: its token, and its last batch acknowledged in all ``parts``."""
        return tuple((token, work.acked(parts)) for token, work in self._works.items())

    def add(self, work: LeaseWork) -> bool:
        """Hold a lease; false if it is held already."""
        if work.lease.token in self._works:
            return False
        self._works[work.lease.token] = work
        return True

    def current(self) -> LeaseWork | None:
        """The first lease with a batch that was not delivered yet."""
        for work in self._works.values():
            if work.next_batch < work.num_batches:
                return work
        return None

    def at_edge_before(self, work: LeaseWork) -> bool:
        """Whether the next batch of a lease goes into a window of its own."""
        return self.at_edge or work.begins_replay()

    def deliver(self, work: LeaseWork) -> int:
        """The next batch of a lease, counted as delivered."""
        batch = work.next_batch
        work.next_batch += 1
        self.at_edge = batch in work.lease.edges
        return batch

    def of(self, key: TaskKey) -> LeaseWork | None:
        """The lease of a task; None if it is not held."""
        return next((w for w in self._works.values() if w.lease.key == key), None)

    def is_at_end(self, part: SharedPart) -> bool:
        """Whether a part's window that holds the last delivered batch must end with it."""
        return self.at_edge or (not part.rules.spans_tasks and self.current() is None)

    def peek(self, ahead: int) -> Batch | None:
        """The batch after ``ahead`` more of the same task; it is not delivered."""
        work = self.current()
        if work is None or work.next_batch + ahead >= work.num_batches:
            return None
        return Batch(work.lease.key, work.next_batch + ahead)

    def peek_on(self, ahead: int) -> Batch | None:
        """The batch after ``ahead`` more of all leases; it is not delivered."""
        for work in self._works.values():
            batch = work.next_batch + ahead
            if batch < work.num_batches:
                return Batch(work.lease.key, batch)
            ahead = batch - max(work.next_batch, work.num_batches)
        return None

    def acked_with(
        self, part: int, window: Window, parts: tuple[int, ...]
    ) -> tuple[int, ...]:
        """What would be acknowledged in every one of ``parts`` after a window of one.

        Of the task of each of its spans it is the last such batch.
        """
        if parts == (part,):
            return tuple([span.last for span in window.spans])
        works = {work.lease.key: work for work in self._works.values()}
        others = tuple(number for number in parts if number != part)
        return tuple(
            min(span.last, works[key].acked(others)) if others else span.last
            for key, span in zip(window.task_keys(), window.spans, strict=True)
        )

    def advance(self, part: int, window: Window) -> None:
        """All servers have acknowledged a window of a part."""
        for span in window.spans:
            self._work_on(window, span.task).advance(part, span.last)

    def _work_on(self, window: Window, task: int) -> LeaseWork:
        for work in self._works.values():
            stage, epoch, own = work.lease.key
            if own == task and epoch == window.epoch and stage == window.stage:
                return work
        raise KeyError(TaskKey(window.stage, window.epoch, task))

    def drop_complete(self, parts: tuple[int, ...]) -> int:
        """Hold leases no longer that are complete in every part; how many there were."""
        complete = [
            token
            for token, work in self._works.items()
            if work.acked(parts) + 1 >= work.num_batches
        ]
        for token in complete:
            del self._works[token]
        return len(complete)

    def drop(self, key: TaskKey) -> LeaseWork | None:
        """Hold the lease of a task no longer; None if it was not held."""
        for token, work in self._works.items():
            if work.lease.key == key:
                self.at_edge = False
                return self._works.pop(token)
        return None


def find_ahead(
    asking: Asking,
    leases: Leases,
    parts: dict[int, SharedPart],
    stage: StageSpec,
    number: int,
) -> Act[Batch | Nothing]:
    """The batch after ``number`` more of all leases, for who takes batches ahead.

    Of what is held it is looked up; else one more lease is asked for, again while servers
    return or a lost trainer's marks are read. ``spent``: nothing comes before steps have
    moved the loop on. ``lost``: all that was delivered is gone, so that what is leased now
    is no batch behind it.
    """
    while leases:
        found = leases.peek_on(number)
        if found is not None:
            return found
        if asking.stopped is not None or asking.pauses:
            return "spent"
        ask = AskLease(
            **asking.who(),
            stage=stage.stage,
            held=leases.held(tuple(parts)),
            is_open=True,
            is_ahead=True,
        )
        reply = yield from asking.ask_once(ask)
        if isinstance(reply, Granted):
            leases.add(LeaseWork(reply.lease, stage))
        elif not isinstance(reply, Waiting) or reply.is_spent:
            return "spent"
    return "lost" if any(part.forgotten for part in parts.values()) else "spent"


def drop_unstepped(parts: dict[int, SharedPart]) -> None:
    """What was delivered and stepped over by no part belongs to no window.

    A batch that one part has stepped over counts in those that were not stepped, too: they
    have nothing of it. Of the user's own tables every batch is written when it is over.
    """
    newest = min((part.window.num_delivered() for part in parts.values()), default=0)
    for part in parts.values():
        tables = part.spec.tables
        if not any(isinstance(table.optimizer, Combine) for table in tables):
            part.stepped += part.window.step(but=newest)
        part.window.drop_delivered()


def hand_back(asking: Asking, leases: Leases, parts: dict[int, SharedPart]) -> Act[None]:
    """Give all leases back; nothing of them is on its way, what is open is dropped."""
    held = leases.held(tuple(parts))
    if held:
        tokens, acked = zip(*held, strict=True)
        yield from asking.ask(HandBack(**asking.who(), tokens=tokens, acked=acked))
    leases.clear()
    for part in parts.values():
        part.window = OpenWindow()


def give_up(
    asking: Asking,
    leases: Leases,
    parts: dict[int, SharedPart],
    key: TaskKey,
    error: str,
) -> Act[None]:
    """Give one task up, if it is held: its data cannot be read."""
    work = leases.drop(key)
    if work is not None:
        token, acked = work.lease.token, work.acked(tuple(parts))
        yield from asking.ask(
            FailTask(**asking.who(), token=token, acked=acked, error=error)
        )
