"""Runs of trainers of several processes, and what their coordinator has told of them."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from paceline.config import JobConfig, Pace, Sync
from paceline.data.order import records_at
from paceline.failpoints import ARM_VARIABLE
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, RunResult, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending
from tests.system.events import events_of

CLOCK = SystemClock()
_SYNC = Sync()


class _Contribution(msgspec.Struct):
    window: tuple[int, int, list[tuple[int, int, int]]]


def run(
    forks: ForkServer,
    job: JobDir,
    script: Path,
    arguments: Sequence[object],
    *,
    size: int = 2,
    trainers: int = 1,
    pace: Pace = _SYNC,
    timeout_s: float = 60.0,
    failpoints: str = "",
) -> RunResult:
    """A job of two servers and of trainers of ``size`` processes, until it is over."""
    config = JobConfig(
        run=fresh_run_id(),
        trainers=trainers,
        ranks_per_trainer=size,
        servers=2,
        pace=pace,
        timeout_s=timeout_s,
    )
    local = LocalRun(config, UserScript(str(script), [str(a) for a in arguments]), job)
    with job.path.with_suffix(".out").open("a") as out:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", ARM_VARIABLE: failpoints}
        result = wait_local_run(
            local, open_show(out), CLOCK, environment=environment, forks=forks
        )
    if result.verdict.ending is not Ending.TRAINED:
        print("\n".join(log.read_text() for log in job.log("x").parent.glob("trainer*")))  # noqa: T201  (for whoever looks at a failure)
    return result


def committed_rounds(job: JobDir, records: int, batch: int, task_size: int) -> list[Tensor]:
    """The records of each round, as the coordinator told who was in it; seed 11."""
    rounds, loops = [], dict[int, int]()  # {stage: which loop of the script it is}
    for event in events_of(job.path, "RoundCommitted"):
        contributions = msgspec.convert(event["contributions"], list[_Contribution])
        loop = loops.setdefault(contributions[0].window[0], len(loops))
        positions = [
            np.arange(
                task * task_size + first * batch,
                min(task * task_size + (last + 1) * batch, (task + 1) * task_size, records),
            )
            for contribution in contributions
            for task, first, last in contribution.window[2]
        ]
        order = records_at(np.concatenate(positions), records, 11, 0, True, loop=loop)
        rounds.append(torch.from_numpy(order))
    return rounds


def models_of(folder: Path) -> dict[str, dict[str, Tensor]]:
    return {path.stem: load_file(path) for path in sorted(folder.glob("*.safetensors"))}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-6)
