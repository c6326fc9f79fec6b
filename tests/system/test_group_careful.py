"""Scaling, clipping and accumulation in a trainer of several processes, step for step."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from paceline.config import SSP, Async, Pace, Sync
from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.summary import Ending
from tests.system import group_careful_job as job_of
from tests.system.group_careful_job import BATCH, CLIP, RECORDS, SCALE
from tests.system.group_runs import assert_equal, models_of, run

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SCRIPT = Path(job_of.__file__)
SIZE = 2


def train_alone(accumulate: int, *, is_wide: bool, is_scaled: bool) -> dict[str, Tensor]:
    """One process: of each rank's batches the clipped gradient, of the ranks the mean."""
    model = job_of.Model(is_wide=is_wide)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    numbers, features = job_of.make_data()
    batches = list(zip(numbers.split(BATCH), features.split(BATCH), strict=True))
    steps = skipped = clipped = 0
    for start in range(0, len(batches), SIZE * accumulate):
        window = batches[start : start + SIZE * accumulate]
        steps += 1
        if is_scaled and any(job_of.overflows(one) for one, _ in window):
            skipped += 1
            continue
        total = [torch.zeros_like(p) for p in model.parameters()]
        for index in range(SIZE):
            optimizer.zero_grad()
            for _, inputs in window[index::SIZE]:
                (model(inputs) / accumulate).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            clipped += bool(norm > CLIP)
            for one, parameter in zip(total, model.parameters(), strict=True):
                assert parameter.grad is not None
                one += parameter.grad / SIZE
        for one, parameter in zip(total, model.parameters(), strict=True):
            parameter.grad = one
        optimizer.step()
    assert 0 < clipped < SIZE * steps, "some gradients are clipped, and some are not"
    assert skipped == (2 if is_scaled else 0)
    return dict(model.state_dict())


CASES = [  # (wide, scaled, batches to a step)
    *((Sync(), *case) for case in itertools.product((False, True), (False, True), (1, 2))),
    *(
        (pace, *case)
        for pace in (Async(), SSP(staleness=1))
        for case in ((False, False, 1), (True, True, 2))
    ),
]


@pytest.mark.parametrize(("pace", "is_wide", "is_scaled", "accumulate"), CASES)
def test_a_step_is_the_mean_of_what_each_process_would_have_stepped_or_none(
    pace: Pace,
    is_wide: bool,
    is_scaled: bool,
    accumulate: int,
    tmp_path: Path,
    forks: ForkServer,
) -> None:
    job = JobDir(tmp_path / "job")
    wide, scaled = "wide" if is_wide else "few", "scaled" if is_scaled else "plain"
    result = run(forks, job, SCRIPT, (tmp_path, wide, accumulate, scaled), pace=pace)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == RECORDS
    found = models_of(tmp_path)
    assert list(found) == ["trainer-0.0", "trainer-0.1"]
    alone = train_alone(accumulate, is_wide=is_wide, is_scaled=is_scaled)
    for model in found.values():
        assert_equal(model, alone)
        if is_scaled:  # each rank has had one batch that overflowed, and one of the other's
            assert model["scale"].item() == SCALE / 2
