"""The loop over a stage: leases in, batches out; what ends with a batch.

Which records a batch has follows from the stage alone, so it is the same batch whoever
computes it, and however often.

Waits: for coordinator, servers and the data set, between batches. The thread of the user's
loop calls.
"""

import contextlib
import logging
from collections.abc import Generator, Iterator, Mapping
from typing import Any, final

import numpy as np
import xxhash

from paceline.data.ahead import ReadingPool, WantedBatch
from paceline.data.order import Positions, records_at
from paceline.data.source import ReadAhead, Source, read_ahead_of
from paceline.data.split import task_positions
from paceline.errors import PacelineError, Preempted, UsageError, describe_error
from paceline.ids import TaskKey
from paceline.messages.shared import StageSpec
from paceline.trainer.engine import Calls, Steps, TrainerEngine
from paceline.trainer.holdings import SharedPart, Writing
from paceline.trainer.loop.lookahead import Hands
from paceline.trainer.loop.script_changes import Changes
from paceline.trainer.loop.stages import Stage
from paceline.trainer.model import changed_by_script, let_rest
from paceline.trainer.verdicts import Batch, Flush, Leaving, Over, Stepped

_log = logging.getLogger("paceline.trainer")

_FROZEN = (
    "the parameter {name!r} was frozen when its model was shared, and its values are "
    "others now: nothing shares them, so other trainers, checkpoints and exports have "
    "those of share; make it a buffer (register_buffer), or share it as trainable "
    "(requires_grad=True)"
)
_LATE = (
    "the buffer {name!r} was registered within the loop, in a model that had none when the "
    "loop began: no checkpoint of this loop has it; register it in the model's __init__"
)


@final
class TaskReader:
    """Reads batches; the records of the current task are found once.

    Attributes:
        ahead: how far before its turn a batch may be read.
    """

    def __init__(self, source: Source, spec: StageSpec, num_workers: int = 0) -> None:
        """Read nothing yet; here, or with ``num_workers`` in other processes."""
        # Batches of other processes are read ahead anyhow.
        self.ahead: ReadAhead = "kept" if num_workers else read_ahead_of(source)
        self._source, self._spec = source, spec
        self._pool = ReadingPool(source, num_workers) if num_workers else None
        self._key: TaskKey | None = None
        self._records: Positions = np.empty(0, np.int64)

    def read(self, found: Batch) -> Any:  # noqa: ANN401  (the user's data)
        """One batch of a task, as the source makes it; its errors pass through.

        Other processes go on to the batches that follow in the task.
        """
        key, batch = found
        if self._pool is None:
            return self._source.batch(self._records_of(key, batch))
        stop = min(batch + 1 + self._pool.num_ahead, self._spec.num_batches(key.task))
        wanted = [self._wanted(key, number) for number in range(batch, stop)]
        return self._pool.wait_batch(wanted)

    def read_ahead(self, found: Batch) -> Any:  # noqa: ANN401  (the user's data)
        """One batch before its turn: all of it where it is kept, else what is asked for."""
        if self.ahead == "again":
            return self._source.glance(self._records_of(*found))
        return self.read(found)

    def follow(self, agreed: StageSpec) -> None:
        """The job has the stage shuffled in this way."""
        self._spec = agreed

    def close(self) -> None:
        """End the processes that read."""
        if self._pool is not None:
            self._pool.close()

    def _wanted(self, key: TaskKey, batch: int) -> WantedBatch:
        name = f"batch {batch} of {key}"
        seed = xxhash.xxh3_64_intdigest(f"{self._spec.seed}: {name}".encode())
        return WantedBatch(name, self._records_of(key, batch), seed)

    def _records_of(self, key: TaskKey, batch: int) -> Positions:
        spec = self._spec
        if key != self._key:
            first, stop = task_positions(spec, key.task)
            self._records = records_at(
                np.arange(first, stop),
                spec.records,
                spec.seed,
                key.epoch,
                spec.shuffle,
                loop=spec.loop,
            )
            self._key = key
        start = batch * spec.batch_size
        return self._records[start : start + spec.batch_size]


def deliver(
    carrier: TrainerEngine, changes: Changes, calls: Calls, stage: Stage, workers: int
) -> Generator[Any, None, None]:
    """Batches for this trainer until the stage is over for all.

    A loop that is left early pushes what was stepped and hands the rest back. A batch
    that cannot be read gives its task up; the coordinator counts the failure.

    Raises:
        Preempted: the trainer was told to leave.
        UsageError: the loop has come to its end, and its script has never stepped.
    """
    reader, outlook = TaskReader(stage.source, stage.spec, workers), carrier.outlook
    begin_loop(carrier, changes, stage, reader)
    hands = Hands(carrier, reader.read, stage.lookahead) if stage.lookahead else None
    stopwatch, is_over = carrier.stopwatch, False
    try:
        while True:
            stopwatch.begin()
            if changed := changed_by_script(carrier.numbers):
                changes.send(changed)
            found = carrier.next_batch()
            if isinstance(found, Over):
                is_over = True
                calls.num_void = 0 if hands is None else hands.num_ahead
                check_steps(carrier, is_over=True)
                return
            if isinstance(found, Leaving):
                raise Preempted(found.reason)
            if isinstance(found, Flush):
                check_steps(carrier, is_over=False)
                carrier.flush()
                continue
            try:
                data = outlook.take(found) if hands is None else hands.take(found)
            except Preempted:
                raise
            except Exception as error:  # noqa: BLE001  (a user's data set may raise any)
                _log.exception("task %s cannot be read", found.key)
                carrier.fail_task(found, describe_error(error))
                continue
            let_rest(carrier.numbers.values())
            carrier.steps.deliver(found.key)
            stopwatch.has_read()
            if hands is None:
                yield data
            else:
                yield from hands.hand(data)
            if carrier.tables:
                end_batch(carrier)
            stopwatch.end()
    finally:
        stopwatch.rest()
        end_loop(carrier, changes, reader, is_over=is_over)


def begin_loop(
    carrier: TrainerEngine, changes: Changes, stage: Stage, reader: TaskReader
) -> None:
    """The job has the stage; what is read of it is read in the job's order."""
    spec, protocol = stage.spec, carrier.protocol
    try:
        changes.begin(spec.stage)
        carrier.run(protocol.begin_stage(spec))
    except BaseException:
        reader.close()
        raise
    assert protocol.stage is not None
    reader.follow(protocol.stage)
    carrier.outlook.begin(reader.read, reader.read_ahead, reader.ahead)
    carrier.steps = Steps(protocol.stage)


@contextlib.contextmanager
def leaving_anyhow(otherwise: str) -> Iterator[None]:
    """On the way out: the job may be gone, and that may be why; what is logged then."""
    try:
        yield
    except PacelineError as error:
        _log.warning("%s: %s", otherwise, error)


def end_loop(
    carrier: TrainerEngine, changes: Changes, reader: TaskReader, *, is_over: bool
) -> None:
    """The loop is over for all, or is left."""
    carrier.outlook.end()
    reader.close()
    lost = None
    if not is_over:
        lost = changes.leave()
        with leaving_anyhow("the loop was left without handing its leases back"):
            carrier.leave_loop()
    let_rest(carrier.numbers.values(), is_end=True)
    if lost is not None:
        carrier.warn_once(lost)
    _warn_of_untold(carrier)


def _warn_of_untold(carrier: TrainerEngine) -> None:
    """A loop ends: warn of frozen parameters that have changed, and of late buffers."""
    for numbers in carrier.numbers.values():
        name = None if numbers.frozen is None else numbers.frozen.changed()
        if name is not None:
            carrier.warn_once(_FROZEN.format(name=name))
    late = carrier.tracker.late_buffer()
    if late is not None:
        carrier.warn_once(_LATE.format(name=late))


def check_steps(carrier: TrainerEngine, *, is_over: bool) -> None:
    """Where a loop ends, or there is no work just now: has its script ever stepped?

    Raises:
        UsageError: it has not, and what was delivered would count without being trained.
    """
    protocol = carrier.protocol
    asking = protocol.asking
    ends = asking.stopped is not None or asking.pauses or protocol.must_join
    if carrier.tables or ends or (not is_over and protocol.peek(0) is not None):
        return
    judged = carrier.steps.judge(is_over=is_over)
    if judged.verdict == "refuse":
        raise UsageError(judged.reason)
    if judged.verdict == "warn":
        carrier.warn_once(judged.reason)
    for part, numbers in carrier.numbers.items():
        spec = protocol.parts[part].spec
        name = spec.parameters[0].names[0] if spec.parameters else spec.tables[0].name
        told = carrier.steps.forgets(part, name)
        if told is not None and numbers.gradients.has_fresh():
            carrier.warn_once(told)


def end_batch(carrier: TrainerEngine) -> None:
    """The user is done with a batch: what it has pushed to tables leaves.

    Raises:
        UsageError: a model whose gradients travel between trainers was not stepped.
    """
    for part, table in carrier.tables.items():
        # Its gradients would be in no round, and its batch would count.
        model = table.manner.must_step
        if model and carrier.protocol.parts[part].window.has_delivered():
            raise UsageError(
                f"{model}: with allreduce every batch has its step(), and one "
                f"has ended without: accumulate gradients by larger batches"
            )
    step_atomic(carrier)
    for part in carrier.tables:
        if has_batch(carrier.protocol.parts[part]):
            carrier.step(part)


def step_atomic(carrier: TrainerEngine) -> None:
    """What all atomic tables have of a batch leaves, as one."""
    parts = carrier.protocol.parts
    atomic = [part for part, one in carrier.tables.items() if one.manner.is_atomic]
    whole = [part for part in atomic if has_batch(parts[part])]
    if whole:
        step_whole(carrier, {part: {} for part in whole})


def has_batch(part: SharedPart) -> bool:
    """Whether the script is in a batch of a part, be it one that is gone.

    The trainer may have joined again since, by any question of the script's: what that
    batch pushes goes nowhere, as a step of it does.
    """
    return part.window.has_delivered() or bool(part.forgotten)


def step_whole(carrier: TrainerEngine, tokens: Mapping[int, Mapping[str, int]]) -> Stepped:
    """The batch in the user's hands is over for these tables: what was written leaves.

    It is there on all servers, for all of them, or nowhere, whoever dies. ``tokens``:
    {part: {server: token of the lock that its rows are written under}}; without locks,
    nothing for a part.

    Returns:
        What became of the step; ``dropped`` if the batch is gone.

    Raises:
        Refused: a lock was lost (``lock_lost``); nothing was written, and the batch is in
            the user's hands as before.
    """
    protocol = carrier.protocol
    *beside, last = tokens
    for part in tokens:
        protocol.parts[part].writing = Writing(tokens[part], ())
    protocol.parts[last].writing = Writing(tokens[last], tuple(beside))
    try:
        if not protocol.must_join:
            for part in beside:
                carrier.load(part)
        return carrier.step(last)
    finally:
        for part in tokens:
            protocol.parts[part].writing = None
            carrier.tables[part].clear()
