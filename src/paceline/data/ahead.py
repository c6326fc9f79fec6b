"""Batches read ahead, by processes that are forked from the trainer's.

::

    wanted: next, ..., n after it --asked--> processes: seed, read, collate
    wait_batch <-- in the order wanted, through shared memory

A forked process has the data set without copying or packing it, so any data set will do.
It has one thread of torch, ignores the keyboard, dies with the trainer, and holds none of
its connections (`paceline.transport.sockets` sees to that). Before each batch it seeds the
random numbers of torch, NumPy and Python with the batch's own seed: an augmentation is the
same whoever reads the batch, and however often.

A process that is killed takes what was being read with it; it is read again, by new
processes, a few times.

Waits: for the data set, as long as the processes that read it live; `ReadingPool.close`,
`CLOSE_S`. One thread calls, the one that the processes die with.
"""

import concurrent.futures
import logging
import multiprocessing
import os
import random
import signal
import threading
import traceback
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, final

import numpy as np
import torch

from paceline.data.source import Records, Source
from paceline.errors import BatchUnreadable, describe_error

BATCHES_AHEAD = 2  # for each process, as torch's DataLoader has it
MAX_LOSSES = 3  # in a row, before a batch is given up
CLOSE_S = 2.0  # less than a trainer has that is told to leave
KILLED_S = 10.0  # a killed process that is not gone by then is stuck in the kernel
_log = logging.getLogger("paceline.data")


class WantedBatch(NamedTuple):
    """A batch to be read: what it is called here, its records and its seed."""

    key: Hashable
    records: Records
    seed: int


class _Read(NamedTuple):
    batch: Any
    error: str = ""  # why there is no batch
    story: str = ""  # where in the data set's code


class _Asked(NamedTuple):
    wanted: WantedBatch
    answer: "concurrent.futures.Future[_Read]"


@final
class ReadingPool:
    """Processes that read one source."""

    def __init__(self, source: Source, num_workers: int) -> None:
        """Fork nothing yet: the first batch does."""
        self._source, self._num_processes = source, num_workers
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._asked: deque[_Asked] = deque()

    @property
    def num_ahead(self) -> int:
        """How many batches are read ahead of the one that is waited for."""
        return BATCHES_AHEAD * self._num_processes

    def wait_batch(self, wanted: Sequence[WantedBatch]) -> Any:  # noqa: ANN401  (the user's data)
        """The first batch that is wanted; the others are likely to be wanted next.

        What was read ahead and is not wanted now is dropped.

        Raises:
            BatchUnreadable: the data set raised, or the processes that read the batch were
                killed `MAX_LOSSES` times in a row.
        """
        for loss in range(1, MAX_LOSSES + 1):
            try:
                self._ask(wanted)
                read = self._asked[0].answer.result()
            except BrokenProcessPool:
                self.close()
                _log.warning("a process that reads batches was killed (%d.)", loss)
                continue
            self._asked.popleft()
            if read.error:
                _log.warning("a batch cannot be read:\n%s", read.story)
                raise BatchUnreadable(read.error)
            return read.batch
        raise BatchUnreadable(
            f"the processes that read {wanted[0].key} were killed {MAX_LOSSES} times in a "
            "row, by the system (is there memory enough?) or by native code of the data "
            "set; try workers=0 to see it happen here"
        )

    def close(self) -> None:
        """End the processes; may be repeated.

        They may end what they are reading, for `CLOSE_S`; then they are killed, and a line
        in the log says what was being read.
        """
        running = [one.wanted.key for one in self._asked if one.answer.running()]
        self._asked.clear()
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())  # forgotten when it shuts down
        ending = threading.Thread(
            target=lambda: pool.shutdown(wait=True, cancel_futures=True),
            name="reading-pool-end",
            daemon=True,
        )
        ending.start()
        ending.join(CLOSE_S)
        if not ending.is_alive():
            return
        _log.warning(
            "%s is still being read after %g s and not wanted any more; the processes that "
            "read are killed",
            *(", ".join(map(str, running)) or "a batch", CLOSE_S),
        )
        for process in processes:
            process.kill()
        ending.join(KILLED_S)

    def _ask(self, wanted: Sequence[WantedBatch]) -> None:
        keys = [one.key for one in wanted]
        while self._asked and self._asked[0].wanted.key != keys[0]:
            self._asked.popleft().answer.cancel()
        if self._pool is None:
            self._pool = concurrent.futures.ProcessPoolExecutor(
                self._num_processes,
                # Only a fork has the data set without having been sent it.
                multiprocessing.get_context("fork"),
                initializer=_begin,
                initargs=(self._source, os.getpid()),
            )
        for one in wanted[len(self._asked) :]:
            answer = self._pool.submit(_read, one.records, one.seed)
            self._asked.append(_Asked(one, answer))


_source: list[Source] = []  # what this process reads, if it is one that reads


def _begin(source: Source, parent: int) -> None:
    torch.multiprocessing._prctl_pr_set_pdeathsig(signal.SIGKILL)  # type: ignore[attr-defined]
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer decides what it means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    _source[:] = [source]


def _read(records: Records, seed: int) -> _Read:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    try:
        return _Read(_source[0].batch(records))
    except Exception as error:  # noqa: BLE001  (a user's data set may raise any)
        return _Read(None, describe_error(error), traceback.format_exc())
