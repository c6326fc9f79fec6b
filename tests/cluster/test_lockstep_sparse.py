"""Sparse embeddings in `sync`: three trainers with uneven data are one process."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from paceline.config import JobConfig, Sync
from paceline.data.order import records_at
from paceline.launch.embedded import EmbeddedJob

RECORDS, BATCH, TASK, EPOCHS, TRAINERS, SEED = 215, 4, 12, 2, 3, 11
ROWS, DIM = 4000, 8  # two blocks
Make = Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "sparse adam": lambda p: torch.optim.SparseAdam(p, lr=1e-2),
}


def make_table() -> nn.EmbeddingBag:
    torch.manual_seed(3)
    return nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True)


def make_data() -> tuple[Tensor, Tensor]:
    """Bags of ids, some of which most batches have, and what each is to sum up to."""
    draw = torch.Generator().manual_seed(5)
    often = torch.randint(0, 10, (RECORDS, 2), generator=draw)
    seldom = torch.randint(0, ROWS, (RECORDS, 3), generator=draw)
    return torch.cat([often, seldom], dim=1), torch.randn(RECORDS, DIM, generator=draw)


def train_together(
    job: EmbeddedJob, data: tuple[Tensor, Tensor], make: Make
) -> list[nn.EmbeddingBag]:
    """Every trainer in a thread of its own; their tables after the loop."""
    tables = [make_table() for _ in range(TRAINERS)]
    errors: list[BaseException] = []

    def train(index: int) -> None:
        try:
            session, table = job.session(f"trainer-{index}"), tables[index]
            optimizer = session.share(table, make(table.parameters()))
            for ids, target in session.batches(
                data, BATCH, epochs=EPOCHS, task_size=TASK, seed=SEED
            ):
                nn.functional.mse_loss(table(ids), target).backward()
                optimizer.step()
                optimizer.zero_grad()
        except BaseException as error:  # noqa: BLE001  (raised again by the test)
            errors.append(error)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(TRAINERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads), "a trainer hangs"
    if errors:
        raise errors[0]
    return tables


def joined_records(events: Path) -> list[Tensor]:
    """The records of each committed round, as the coordinator told them."""
    rounds = []
    for line in events.read_bytes().splitlines():
        event = msgspec.json.decode(line)
        if event["event"] != "RoundCommitted":
            continue
        positions = []
        windows = [contribution["window"] for contribution in event["contributions"]]
        [epoch] = {window[1] for window in windows}
        for _, _, spans in windows:
            for task, first, last in spans:
                start, stop = task * TASK + first * BATCH, task * TASK + (last + 1) * BATCH
                positions.append(np.arange(start, min(stop, (task + 1) * TASK, RECORDS)))
        found = records_at(np.concatenate(positions), RECORDS, SEED, epoch, True)
        rounds.append(torch.from_numpy(found))
    return rounds


def train_alone(
    rounds: list[Tensor], data: tuple[Tensor, Tensor], make: Make
) -> nn.EmbeddingBag:
    """One process on the joined batches."""
    table = make_table()
    optimizer = make(table.parameters())
    for records in rounds:
        loss = nn.functional.mse_loss(table(data[0][records]), data[1][records])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return table


@pytest.fixture(autouse=True)
def _one_thread_unchecked() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_trainers_with_sparse_gradients_equal_one_process(
    name: str, tmp_path: Path
) -> None:
    config = JobConfig(
        run=f"sparse-{name.replace(' ', '-')}",
        trainers=TRAINERS,
        servers=2,
        pace=Sync(),
        timeout_s=60.0,
    )
    data = make_data()
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        together = train_together(job, data, OPTIMIZERS[name])
    finally:
        summary = job.close()
    assert summary["records"] == RECORDS * EPOCHS
    rounds = joined_records(tmp_path / "job" / "events.jsonl")
    assert {len(records) for records in rounds} > {TRAINERS * BATCH}, "the data was even"
    alone = train_alone(rounds, data, OPTIMIZERS[name])
    moved = (alone.weight - make_table().weight).norm()
    assert (together[0].weight - alone.weight).norm() <= 1e-6 * alone.weight.norm()
    assert (together[0].weight - alone.weight).norm() <= 1e-4 * moved, "little was trained"
    for other in together[1:]:
        assert torch.equal(other.weight, together[0].weight)
