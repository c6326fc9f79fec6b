"""A model whose weight is the sum of all that it has seen, and the loops around it."""

from collections.abc import Callable

import torch
from torch import nn

from paceline.trainer.session import Session
from paceline.trainer.share.optimizer import SharedOptimizer
from tests.trainer.fake_job import FakeJob

DATA = torch.arange(12.0).reshape(12, 1)
OneStep = Callable[[torch.Tensor], None]


def share_line(session: Session) -> tuple[nn.Linear, SharedOptimizer]:
    """``y = w x`` whose w is the sum of all x stepped over: SGD with lr -1."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
    return model, session.share(model, optimizer)


def stepper(model: nn.Module, optimizer: SharedOptimizer) -> OneStep:
    def step(batch: torch.Tensor) -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def run_loop(session: Session, step: OneStep, batch_size: int = 2) -> list[float]:
    seen = []
    for batch in session.batches(DATA, batch_size, shuffle=False, task_size=6):
        seen += batch.flatten().tolist()
        step(batch)
    return seen


def quick_session(job: FakeJob) -> Session:
    return job.session(timeout_s=0.005)
