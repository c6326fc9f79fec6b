"""Other processes read ahead: in order, seeded by batch, and they may be killed."""

import multiprocessing
import os
import random
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.data import ahead
from paceline.data.ahead import MAX_LOSSES, ReadingPool, WantedBatch
from paceline.data.opening import open_source
from paceline.errors import BatchUnreadable

pytestmark = pytest.mark.slow
SIZE = 12
PATIENCE_S = 30.0


class Squares:
    """Says who read it; fails at a record, or kills who reads it, with ``deaths`` once."""

    def __init__(
        self,
        failing: int = -1,
        deadly: int = -1,
        deaths: Path | None = None,
        endless: int = -1,
    ) -> None:
        self.failing, self.deadly, self.deaths = failing, deadly, deaths
        self.endless = endless

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, object]:
        if index == self.endless:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Event().wait()
        if index == self.failing:
            raise ValueError("a torn record")
        if index == self.deadly and (self.deaths is None or not self.deaths.exists()):
            if self.deaths is not None:
                self.deaths.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        draws = (torch.rand(()).item(), np.random.rand(), random.random())
        return {"square": index**2, "draws": draws, "process": os.getpid()}


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


def wanted_from(first: int) -> list[WantedBatch]:
    records = np.arange(SIZE).reshape(-1, 2)
    return [
        WantedBatch(f"batch {i}", records[i], 100 + i) for i in range(first, len(records))
    ]


def read_all(dataset: Squares, num_workers: int = 2) -> list[dict[str, torch.Tensor]]:
    pool = ReadingPool(open_source(dataset), num_workers)
    try:
        return [pool.wait_batch(wanted_from(first)) for first in range(SIZE // 2)]
    finally:
        pool.close()


def test_batches_come_in_the_order_wanted_from_other_processes() -> None:
    batches = read_all(Squares())
    assert torch.cat([b["square"] for b in batches]).tolist() == [i**2 for i in range(SIZE)]
    readers = set(torch.cat([batch["process"] for batch in batches]).tolist())
    assert os.getpid() not in readers


def test_random_numbers_belong_to_the_batch_and_not_to_the_reader() -> None:
    one, two = (
        torch.stack([torch.stack(batch["draws"]) for batch in read_all(Squares(), workers)])
        for workers in (1, 2)
    )
    assert torch.equal(one, two)
    assert len(one.unique()) == one.numel()


def test_a_batch_that_was_not_expected_is_read_all_the_same() -> None:
    pool = ReadingPool(open_source(Squares()), 2)
    try:
        for first in (0, 4, 1, 1):
            square = pool.wait_batch(wanted_from(first))["square"]
            assert square.tolist() == [(2 * first) ** 2, (2 * first + 1) ** 2]
    finally:
        pool.close()


def test_an_error_names_the_record_and_the_pool_goes_on() -> None:
    pool = ReadingPool(open_source(Squares(failing=3)), 2)
    try:
        pool.wait_batch(wanted_from(0))
        text = "^ValueError: a torn record; reading record 3 of Squares$"
        with pytest.raises(BatchUnreadable, match=text):
            pool.wait_batch(wanted_from(1))
        assert pool.wait_batch(wanted_from(2))["square"].tolist() == [16, 25]
    finally:
        pool.close()


def test_what_a_killed_process_read_is_read_again(tmp_path: Path) -> None:
    died = tmp_path / "died"
    batches = read_all(Squares(deadly=5, deaths=died))
    assert died.exists(), "no process was killed"
    assert [batch["square"].tolist() for batch in batches][2] == [16, 25]


def test_a_batch_that_kills_whoever_reads_it_is_given_up() -> None:
    pool = ReadingPool(open_source(Squares(deadly=1)), 1)
    text = f"the processes that read batch 0 were killed {MAX_LOSSES} times in a row"
    with pytest.raises(BatchUnreadable, match=text):
        pool.wait_batch(wanted_from(0)[:1])
    assert pool.wait_batch(wanted_from(1)[:1])["square"].tolist() == [4, 9]
    pool.close()


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    read_all(Squares())
    assert set(threading.enumerate()) == before


def test_a_read_that_does_not_end_is_given_up_and_its_process_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ahead, "CLOSE_S", 0.1)
    before = set(threading.enumerate())
    pool = ReadingPool(open_source(Squares(endless=2)), 1)
    pool.wait_batch(wanted_from(0)[:2])
    pool.close()  # while batch 1 is being read, for ever
    assert "batch 1 is still being read after 0.1 s" in caplog.text
    assert set(threading.enumerate()) == before
    assert not multiprocessing.active_children()


def test_processes_that_read_die_with_their_trainer() -> None:
    telling, told = os.pipe()
    trainer = os.fork()
    if trainer == 0:
        batch = ReadingPool(open_source(Squares()), 1).wait_batch(wanted_from(0))
        os.write(told, b"%d" % batch["process"][0])
        signal.pause()
    reader = os.pidfd_open(int(os.read(telling, 20)))
    assert not select.select([reader], [], [], 0.0)[0], "it does not read yet"
    os.kill(trainer, signal.SIGKILL)
    os.waitpid(trainer, 0)
    assert select.select([reader], [], [], PATIENCE_S)[0], "it outlives its trainer"
    for number in (reader, telling, told):
        os.close(number)
