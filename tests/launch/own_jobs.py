"""A small script of its own, whose job tests begin, interrupt and look at."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch

from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job.commands import UserScript
from paceline.launch.own_job import OwnJob
from paceline.trainer.session import Session
from paceline.watch.summary import Ending

RECORDS, BATCH = 64, 4
SCRIPT = UserScript("my train.py", ("--rate", "1"))
Begin = Callable[..., OwnJob]


def train(session: Session, each: Callable[[int], object] = lambda _: None) -> float:
    """Count records, 1 for each; what they come to."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for number, (ones,) in enumerate(session.batches((torch.ones(RECORDS, 1),), BATCH)):
        (-model(ones).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        each(number)
    return float(model.weight.item())


def go_on(folder: Path) -> float:
    """Resume the job where it was left."""
    job = EmbeddedJob(JobConfig(run="again"), folder, is_resumed=True)
    came_to = train(job.session("trainer-0"))
    job.close()
    assert job.verdict is not None
    assert job.verdict.ending is Ending.TRAINED
    return came_to


def press_ctrl_c(at: int) -> Callable[[int], None]:
    def each(number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGINT)

    return each
