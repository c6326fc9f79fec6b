"""Which records a given-up task leaves untrained: nothing is lost without a name.

Pure.
"""

import numpy as np

from paceline.coordinator.effects import Happened
from paceline.data.order import records_at
from paceline.data.split import batch_positions, task_positions
from paceline.ids import TaskKey
from paceline.messages import StageSpec


def records_missing(spec: StageSpec, key: TaskKey, first: int, reason: str) -> Happened:
    """The line of the event log for a task that is given up before its batch ``first``.

    Its ``records`` are positions in the user's data set: of every record of the task's
    epoch that has had no effect. Which records a cell has only trainers know: it is named.
    """
    if spec.rotation is not None:
        count = spec.task_records(key.task) - spec.batch_records(key.task, 0, first - 1)
        cell = spec.rotation.cell_of(key.task)
        named: dict[str, object] = {"key": tuple(key), "reason": reason, "cell": cell}
        return Happened("RecordsMissing", {**named, "first": first, "count": count})
    start, _ = batch_positions(spec, key.task, first)
    _, stop = task_positions(spec, key.task)
    positions = np.arange(start, stop)
    records = records_at(
        positions, spec.records, spec.seed, key.epoch, spec.shuffle, loop=spec.loop
    )
    fields: dict[str, object] = {"key": tuple(key), "reason": reason}
    return Happened("RecordsMissing", {**fields, "records": records.tolist()})
