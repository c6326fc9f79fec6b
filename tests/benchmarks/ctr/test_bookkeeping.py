"""The job without bookkeeping is the same job, and really has none."""

from pathlib import Path

import pytest
import torch

from benchmarks.ctr.bookkeeping import (
    WITH,
    WITHOUT,
    compare_losses,
    figures_of,
)
from benchmarks.ctr.bookkeeping_off import removed
from benchmarks.ctr.compare import Trained
from benchmarks.harness.figures import compared
from paceline.config import Async, JobConfig
from paceline.ids import Span, Window
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job.folder import JobDir
from paceline.server.decisions.taking import Marks
from paceline.store.journal import Journal

WINDOW = Window(0, 0, (Span(0, 5, 5),))


def train(folder: Path) -> tuple[torch.Tensor, int]:
    """What a job learns, and how many records its journal has."""
    job = EmbeddedJob(JobConfig(run="r", pace=Async(), cut_every_s=0.0), folder)
    try:
        session = job.session("trainer-0")
        model = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for batch in session.batches(torch.ones(12, 1), 2, shuffle=False):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        job.close()
    journal = Journal(JobDir(folder).journal)
    try:
        return model.weight.detach().clone(), len(journal.read())
    finally:
        journal.close()


@pytest.mark.slow
def test_without_bookkeeping_the_same_is_learned_and_nothing_is_journalled(
    tmp_path: Path,
) -> None:
    whole, records = train(tmp_path / "with")
    with removed():
        bare, none = train(tmp_path / "without")
    assert torch.equal(whole, bare)
    assert records > 0
    assert none == 0


def test_without_bookkeeping_no_window_is_looked_at() -> None:
    marks = Marks()
    marks.add_slots([0])
    assert marks.decide(WINDOW, (0,)).verdict == "gap"
    with removed():
        assert marks.decide(WINDOW, (0,)).verdict == "new"
        marks.advance(WINDOW, (0,))
    assert marks.export() == {0: {}}


def test_what_is_left_is_a_share_of_the_rate_and_of_cpu_time() -> None:
    runs = {
        WITH: [Trained(97.0, 0.5, {"trainer": 6.0, "server": 4.0})],
        WITHOUT: [Trained(100.0, 0.5, {"trainer": 6.0, "server": 3.0})],
    }
    assert compare_losses(runs)[0]
    with_rate, without_rate, with_time, without_time = figures_of(runs)
    rate = compared(with_rate, without_rate, "journal")
    assert (rate.value, rate.verdict) == (0.97, "reached")
    assert compared(with_time, without_time).value == 0.9
