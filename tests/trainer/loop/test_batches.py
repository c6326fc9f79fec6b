"""When a batch is read, and by which thread it is taken and stepped."""

import threading
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import Dataset

from paceline.errors import UsageError
from paceline.messages.trainer import BeginStage
from paceline.trainer.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, run_loop, share_line, stepper


class Curriculum(Dataset[torch.Tensor]):
    """Its items say the level that the loop has set."""

    level = 0.0

    def __len__(self) -> int:
        return 12

    def __getitem__(self, _: int) -> torch.Tensor:
        return torch.tensor([self.level])


def test_a_data_set_of_ones_own_is_read_behind_the_loops_body(session: Session) -> None:
    step, data, seen = stepper(*share_line(session)), Curriculum(), []
    for batch in session.batches(data, 2, task_size=6):
        seen.append(batch[0].item())
        step(batch)
        data.level += 1
    assert seen == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_random_numbers_of_a_data_set_and_of_the_loop_alternate(session: Session) -> None:
    class Noise(Curriculum):
        def __getitem__(self, _: int) -> torch.Tensor:
            return torch.rand(1)

    step = stepper(*share_line(session))
    batches = session.batches(Noise(), 2, task_size=6)
    torch.manual_seed(7)
    drawn: list[float] = []
    for batch in batches:
        drawn += batch.flatten().tolist()
        step(batch)
        drawn += torch.rand(1).tolist()
    torch.manual_seed(7)
    assert drawn == [torch.rand(1).item() for _ in range(18)]


@pytest.mark.parametrize("is_shared_memory", [False, True])
def test_tensors_that_the_loop_changes_are_read_as_they_are_then(
    session: Session, is_shared_memory: bool
) -> None:
    step, seen = stepper(*share_line(session)), []
    data = torch.zeros(12, 1)
    given = torch.from_numpy(data.numpy()) if is_shared_memory else data
    for batch in session.batches(given, 2, task_size=6):
        seen.append(batch[0].item())
        step(batch)
        data.data += 1
    assert seen == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_step_where_another_thread_takes_batches_is_refused(session: Session) -> None:
    step = stepper(*share_line(session))
    batches, taken = session.batches(DATA, 2), []
    thread = threading.Thread(target=lambda: taken.append(next(batches)))
    thread.start()
    thread.join()
    with pytest.raises(UsageError, match=r"another thread takes .* workers=n"):
        step(taken[0])
    batches.close()
    assert run_loop(session, step) == DATA.flatten().tolist()


def test_a_prefetcher_is_told_at_its_second_step(session: Session) -> None:
    def ahead(batches: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        last = next(batches)
        for batch in batches:
            yield last
            last = batch
        yield last

    step = stepper(*share_line(session))
    early = ahead(iter(session.batches(DATA, 2)))
    step(next(early))
    second = next(early)
    with pytest.warns(StepWarning, match=r"after 2 batches, .*lookahead=1"):
        step(second)
    for _ in range(3):
        step(next(early))
    last = next(early)
    with pytest.raises(UsageError, match="lookahead=1"):
        step(last)


def test_stages_that_were_never_iterated_are_unknown_to_the_job(
    job: FakeJob, session: Session
) -> None:
    step = stepper(*share_line(session))
    session.batches(DATA, 2)
    with pytest.raises(UsageError, match="batch_size"):
        session.batches(DATA, 0)
    assert not job.of(BeginStage)
    run_loop(session, step)
    (begun,) = job.of(BeginStage)
    assert begun.spec.stage == 0  # type: ignore[attr-defined]  # a BeginStage


def test_a_loop_is_numbered_where_it_is_shuffled(job: FakeJob, session: Session) -> None:
    step = stepper(*share_line(session))
    for shuffle in (True, False, True):
        for batch in session.batches(DATA, 2, shuffle=shuffle):
            step(batch)
            break
    specs = [begun.spec for begun in job.of(BeginStage)]  # type: ignore[attr-defined]  # a BeginStage
    assert [spec.loop for spec in specs] == [0, 0, 2]
