"""A queue of a million tasks, leased and ended without transport or disk."""

import gc
import time
from typing import NamedTuple

import psutil

from paceline.coordinator.durable.durable import Durable, restore
from paceline.coordinator.durable.outcomes import LeaseGranted, StageRegistered, TaskDone
from paceline.coordinator.durable.queue import encode_queue
from paceline.coordinator.ledgers.tasks import pick_task
from paceline.ids import TaskKey
from paceline.messages.shared import Lease, StageSpec


class QueueFigure(NamedTuple):
    """What it costs to have ended so many tasks behind one that takes for ever."""

    tasks: int
    lease_us: float
    grown_mib: float
    cut_bytes: int


def measure_queue(tasks: int) -> QueueFigure:
    """Lease all tasks in turn and end all but the first; the last 1,000 are timed."""
    state = Durable()
    restore(StageRegistered(StageSpec(0, tasks + 1, 1, 1, 1, False, 0, "data")), state)
    gc.collect()
    before = psutil.Process().memory_full_info().uss
    start_s = 0.0
    for number in range(tasks + 1):
        if number == tasks + 1 - 1000:
            start_s = time.perf_counter()
        pick = pick_task(state)
        assert pick is not None
        key = TaskKey(0, 0, pick.key.task)
        restore(LeaseGranted(Lease(number + 1, key, 0), "trainer-0", 1), state)
        if number:
            restore(TaskDone(key, 1), state)
    lease_us = (time.perf_counter() - start_s) * 1000
    assert state.queue.num_done() == tasks
    grown = psutil.Process().memory_full_info().uss - before
    return QueueFigure(tasks, lease_us, grown / 2**20, len(encode_queue(state.queue)))
