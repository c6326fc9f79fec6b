"""After a loop BatchNorm's averages are those of all trainers, and they are in the cut."""

import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from paceline.config import Async, JobConfig, Pace, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.trainer.engine.tracked_objects import average

RECORDS, BATCH, TASK = 124, 4, 12  # uneven: the last tasks are not for everybody
TRAINERS = 3


class Before(NamedTuple):
    """What a trainer had when its loop ended, before the average."""

    mean: Tensor
    variance: Tensor
    batches: Tensor
    records: int  # that went into these numbers
    trained: int  # all of the loop


class Entries:
    """Tells, as a tracked object, when a trainer has taken over the state of another.

    One that waited without a task enters rounds so: what it had averaged before is gone.
    """

    def __init__(self) -> None:
        self.has_entered = False

    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, _: dict[str, int]) -> None:
        self.has_entered = True


def make_model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def train_together(job: EmbeddedJob) -> tuple[list[list[Before]], list[list[nn.Module]]]:
    """Two loops of every trainer: for each loop, what was before and what came of it."""
    data = torch.randn(RECORDS, 3, generator=torch.Generator().manual_seed(2))
    before: list[list[Before]] = [[], []]
    after: list[list[nn.Module]] = [[], []]
    errors: list[BaseException] = []

    def train(index: int) -> None:
        try:
            session = job.session(f"trainer-{index}")
            model = make_model()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            shared = session.share(model, optimizer)
            norm = model[1]
            assert isinstance(norm, nn.BatchNorm1d)
            entries = Entries()
            session.track(entries=entries)
            for loop in range(2):
                records = trained = 0
                buffers = [norm.running_mean, norm.running_var, norm.num_batches_tracked]
                last = [buffer.clone() for buffer in buffers]
                for batch in session.batches(data, BATCH, task_size=TASK, seed=loop):
                    if entries.has_entered:
                        records, entries.has_entered = 0, False
                    model(batch).square().mean().backward()
                    shared.step()
                    shared.zero_grad()
                    records, trained = records + len(batch), trained + len(batch)
                    last = [buffer.clone() for buffer in buffers]
                before[loop].append(Before(*last, records, trained))
                copy = make_model()
                copy.load_state_dict(model.state_dict())
                after[loop].append(copy[1])
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
    return before, after


@pytest.mark.slow
@pytest.mark.parametrize("pace", [Sync(), Async()], ids=["sync", "async"])
def test_float_buffers_are_averaged_by_records_when_a_loop_ends(
    pace: Pace, tmp_path: Path
) -> None:
    config = JobConfig(
        run="buffers", trainers=TRAINERS, servers=2, pace=pace, timeout_s=60.0
    )
    job = EmbeddedJob(config, tmp_path / "job")
    try:
        before, after = train_together(job)
    finally:
        summary = job.close()
    assert summary["records"] == 2 * RECORDS
    for loop in range(2):
        worked = [one for one in before[loop] if one.records]
        assert sum(one.trained for one in before[loop]) == RECORDS
        assert len(worked) > 1, "nothing is averaged"
        weights = [one.records for one in worked]
        for norm in after[loop]:
            assert isinstance(norm, nn.BatchNorm1d)
            mean = average([one.mean for one in worked], weights)
            variance = average([one.variance for one in worked], weights)
            torch.testing.assert_close(norm.running_mean, mean, rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(norm.running_var, variance, rtol=1e-6, atol=1e-7)
            assert norm.num_batches_tracked == max(one.batches for one in worked)
            assert torch.equal(norm.running_mean, after[loop][0].running_mean)
            assert torch.equal(norm.running_var, after[loop][0].running_var)
