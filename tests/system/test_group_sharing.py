"""Processes of a trainer share its way to the servers, and it stays one trainer."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from paceline.config import Async, Pace, Sync
from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.summary import Ending
from tests.system import group_counting_job, group_wide_job
from tests.system.group_runs import assert_equal, committed_rounds, models_of, run
from tests.system.group_wide_job import BATCH, COUNTED, IDS, RECORDS

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SCRIPT = Path(group_wide_job.__file__)
COUNTING = Path(group_counting_job.__file__)


def train_alone(rounds: Sequence[Tensor]) -> dict[str, Tensor]:
    """One process on the joined batches of the rounds."""
    model = group_wide_job.Model(nn.Embedding(IDS, 4, _weight=torch.zeros(IDS, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    features, ids, target = group_wide_job.make_data()
    seen, mean = 0, torch.zeros(())
    for chosen in rounds:
        loss = nn.functional.mse_loss(model(features[chosen], ids[chosen]), target[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen += len(chosen)
        if seen == RECORDS:  # the first of two loops is over
            with torch.no_grad():
                mean = model(features, ids).mean()
    assert seen == 2 * RECORDS
    found = {**model.state_dict(), "mean": mean.float()}
    found["rows"] = found.pop("rows.weight")
    return found


def dense_bytes() -> int:
    model = group_wide_job.Model(nn.Identity())
    return sum(p.numel() * p.element_size() for p in model.parameters())


def test_two_trainers_of_two_that_share_the_way_equal_one_process(
    tmp_path: Path, forks: ForkServer
) -> None:
    # Tasks of three batches: every other step has a rank without one.
    job, task_size = JobDir(tmp_path / "job"), 3 * BATCH
    result = run(forks, job, SCRIPT, (tmp_path, task_size), trainers=2)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == 2 * RECORDS
    found = models_of(tmp_path)
    assert list(found) == ["trainer-0.0", "trainer-0.1", "trainer-1.0", "trainer-1.1"]
    alone = train_alone(committed_rounds(job, RECORDS, BATCH, task_size))
    for model in found.values():
        assert_equal(model, alone)


@pytest.mark.parametrize("pace", [Sync(), Async()])
def test_each_process_carries_its_share_of_every_push_and_pull(
    pace: Pace, tmp_path: Path, forks: ForkServer
) -> None:
    # Tasks of two batches: every step has one in both ranks.
    job, task_size = JobDir(tmp_path / "job"), 2 * BATCH
    result = run(forks, job, SCRIPT, (tmp_path, task_size), pace=pace)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    steps, whole = 2 * RECORDS // task_size, dense_bytes()
    models = models_of(tmp_path)
    assert list(models) == ["trainer-0.0", "trainer-0.1"]
    for found in models.values():
        counted = {name: int(found[name]) for name in COUNTED}
        assert counted["pushes"] == steps
        assert 0.4 * whole * steps < counted["pushed bytes"] < 0.6 * whole * steps
        assert counted["reads"] >= steps


SYNC, ASYNC = Sync(reduce="sum"), Async()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pace", "place"),
    [
        # a rank, with its share of the push
        pytest.param(SYNC, "group.before_push", marks=pytest.mark.soak),
        (SYNC, "group.after_push"),  # its server has it, the leader does not know
        pytest.param(SYNC, "trainer.prepared", marks=pytest.mark.soak),
        (SYNC, "server.after_prepare"),
        (ASYNC, "group.before_push"),
        pytest.param(ASYNC, "group.after_push", marks=pytest.mark.soak),
        pytest.param(ASYNC, "trainer.before_tick", marks=pytest.mark.soak),
        (ASYNC, "server.after_ack"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_whoever_dies_in_the_middle_of_a_step_every_record_counts_once(
    pace: Pace, place: str, tmp_path: Path, forks: ForkServer
) -> None:
    job, verdict = JobDir(tmp_path / "job"), tmp_path / "verdict.json"
    # Where nothing sums, a step is the mean of its two ranks; tasks are of even numbers of
    # batches, so each record counts for a half, whoever dies.
    weight = 1.0 if pace is SYNC else 0.5
    result = run(
        forks,
        job,
        COUNTING,
        (verdict, weight),
        trainers=2,
        pace=pace,
        failpoints=f"{place}=kill@11x2",
    )
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    fired = {path.name for path in job.failpoints.iterdir()}
    assert f"{place}.0" in fired, "nobody was killed"
    records = group_counting_job.RECORDS * group_counting_job.EPOCHS
    assert result.summary.records == records
    assert json.loads(verdict.read_text()) == {"rows wrong": 0, "dense wrong": 0}
