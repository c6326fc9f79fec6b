import threading

import pytest
import torch
from torch import nn

from paceline.config import Async, Sync
from paceline.data.source import Records, TensorSource
from paceline.errors import UsageError
from paceline.messages.data import Pull, Push
from paceline.messages.trainer import AskLease, FailTask, HandBack, Leave, Log, Save, Tick
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, OneStep, quick_session, run_loop, share_line, stepper


def test_later_trainers_see_the_first_ones_values(job: FakeJob, session: Session) -> None:
    torch.manual_seed(1)
    first = nn.Linear(3, 2)
    session.share(first, torch.optim.SGD(first.parameters(), lr=0.1))
    with job.session() as other:
        second = nn.Linear(3, 2)
        other.share(second, torch.optim.SGD(second.parameters(), lr=0.1))
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(first.bias, second.bias)


@pytest.mark.parametrize("pace", [Sync(), Async(push_every=3, pull_every=2)], ids=str)
def test_every_record_has_its_effect_once(pace: Sync | Async) -> None:
    job = FakeJob(servers=2, pace=pace)
    with job.session() as session:
        model, optimizer = share_line(session)
        seen = run_loop(session, stepper(model, optimizer))
        assert session.records == 12
    assert seen == DATA.flatten().tolist()
    assert model.weight.item() == DATA.sum().item()


def test_shuffled_batches_cover_every_epoch_in_another_order(session: Session) -> None:
    model, optimizer = share_line(session)
    step, seen = stepper(model, optimizer), []
    for batch in session.batches(DATA, 2, epochs=2, seed=4):
        seen += batch.flatten().tolist()
        step(batch)
    assert sorted(seen[:12]) == sorted(seen[12:]) == DATA.flatten().tolist()
    assert seen[:12] != seen[12:]


def test_where_no_rows_are_asked_for_ahead_tensors_are_read_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, batch_of = [0], TensorSource.batch

    def batch(source: TensorSource, records: Records) -> torch.Tensor:
        read[0] += 1
        found: torch.Tensor = batch_of(source, records)
        return found

    monkeypatch.setattr(TensorSource, "batch", batch)
    step = stepper(*share_line(session))
    taken = [step(batch) for batch in session.batches(DATA, 2, task_size=6)]
    assert read == [len(taken)]


def test_break_hands_back_what_no_step_has_used(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)
    for number, batch in enumerate(session.batches(DATA, 2, shuffle=False, task_size=6)):
        if number == 1:
            model(batch).sum().backward()
            break
        step(batch)
    [back] = job.of(HandBack)
    assert back.acked == (0,)
    assert model.weight.grad is None
    assert job.todo[0] == ((0, 0, 0), 1)
    rest = run_loop_again(session, step)
    assert rest == DATA.flatten().tolist()[2:]
    assert model.weight.item() == DATA.sum().item()


def run_loop_again(session: Session, step: OneStep) -> list[float]:
    session._stages.num_begun = 0  # as a restarted script would: the same stage once more
    return run_loop(session, step)


def test_break_pushes_what_the_pace_has_kept() -> None:
    job = FakeJob(pace=Async(push_every=3, pull_every=3))
    with job.session() as session:
        model, optimizer = share_line(session)
        step = stepper(model, optimizer)
        for number, batch in enumerate(session.batches(DATA, 2, shuffle=False)):
            step(batch)
            if number == 1:
                break
    pushed = [push for push in job.of(Push) if push.blocks]
    assert [tick.records for tick in job.of(Tick)] == [2, 2]
    assert len(pushed) == 2


def test_an_error_in_the_loop_hands_back_and_passes_through(
    job: FakeJob, session: Session
) -> None:
    share_line(session)
    with pytest.raises(ZeroDivisionError):
        run_loop(session, lambda _: 1 / 0)
    assert len(job.of(HandBack)) == 1


def test_a_task_that_cannot_be_read_fails_and_the_loop_goes_on(
    job: FakeJob, session: Session
) -> None:
    class Torn:
        def __len__(self) -> int:
            return len(DATA)

        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 4:
                raise OSError("bad sector")
            return DATA[index]

    model, optimizer = share_line(session)
    seen = []
    for number, batch in enumerate(session.batches(Torn(), 2, shuffle=False, task_size=6)):
        seen += batch.flatten().tolist()
        model(batch).sum().backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    [failed] = job.of(FailTask)
    assert failed.acked == 1
    assert failed.error == "OSError: bad sector; reading record 4 of Torn"
    assert seen == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    assert model.weight.item() == sum(seen)


def test_what_was_accumulated_is_flushed_before_a_task_fails(
    job: FakeJob, session: Session
) -> None:
    def collate(items: list[torch.Tensor]) -> torch.Tensor:
        if items[0] == 2:
            raise ValueError("no such record")
        return torch.stack(items)

    model, optimizer = share_line(session)
    batches = session.batches(DATA[:6], 2, shuffle=False, task_size=6, collate_fn=collate)

    def loop() -> None:
        for batch in batches:
            model(batch).sum().backward()

    with pytest.warns(StepWarning, match="no step"):
        loop()
    del optimizer
    kinds = [type(m) for _, m in job.sent if isinstance(m, Tick | FailTask)]
    assert kinds == [Tick, FailTask]
    assert model.weight.item() == 1


def test_stop_ends_the_loop_after_what_was_stepped(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    step, seen = stepper(model, optimizer), []
    for batch in session.batches(DATA, 2, shuffle=False, task_size=6):
        seen += batch.flatten().tolist()
        step(batch)
        if len(seen) == 4:
            session.stop("good enough")
    assert len(seen) <= 6
    assert model.weight.item() == sum(seen)
    assert job.stopped == "good enough"


def test_logs_are_few_and_the_last_one_arrives(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    step = stepper(model, optimizer)
    for number, batch in enumerate(session.batches(DATA, 1)):
        step(batch)
        session.log(loss=number, bad=float("nan"))
        job.clock.advance(1 / 64)
    logs = [m.numbers for m in job.of(Log)]
    assert logs[-1] == {"loss": 11.0, "bad": None}
    assert len(logs) == 4


def test_how_many_trainers_there_are_is_asked_each_time(
    job: FakeJob, session: Session
) -> None:
    assert session.num_trainers == 1
    job.trainers = 5
    assert session.num_trainers == 5


def test_once_is_true_once(session: Session) -> None:
    assert session.once("export")
    assert not session.once("export")


def test_every_save_is_a_request_of_its_own(job: FakeJob, session: Session) -> None:
    session.save()
    session.save()
    assert [m.number for m in job.of(Save)] == [1, 2]


def test_the_parameters_are_pulled_after_the_loop(job: FakeJob, session: Session) -> None:
    model, optimizer = share_line(session)
    run_loop(session, stepper(model, optimizer))
    assert isinstance([m for _, m in job.sent if isinstance(m, AskLease | Pull)][-1], Pull)


def test_parameters_that_are_not_contiguous_are_pulled_as_well(
    job: FakeJob, session: Session
) -> None:
    model = nn.ParameterList([torch.arange(6.0).reshape(2, 3).T])
    before = model[0].detach().clone()
    assert not model[0].is_contiguous()
    session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    assert torch.equal(model[0], before)
    other = nn.ParameterList([torch.zeros(3, 2)])
    with job.session() as second:
        second.share(other, torch.optim.SGD(other.parameters(), lr=1.0))
    assert torch.equal(other[0], before)


def test_bfloat16_is_shared_as_it_is(job: FakeJob, session: Session) -> None:
    model = nn.Linear(3, 2).bfloat16()
    session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    with job.session() as second:
        other = nn.Linear(3, 2).bfloat16()
        second.share(other, torch.optim.SGD(other.parameters(), lr=1.0))
    assert torch.equal(model.weight, other.weight)


def test_autograd_notices_that_a_pull_changed_parameters(session: Session) -> None:
    model = nn.Linear(1, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for batch in session.batches(DATA, 12):
        out = model(batch.requires_grad_()).sum()
        out.backward(retain_graph=True)
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_close_leaves_an_open_loop_and_the_job(job: FakeJob) -> None:
    before = set(threading.enumerate())
    session = job.session()
    share_line(session)
    batches = session.batches(DATA, 2)
    next(batches)
    session.close()
    session.close()
    kinds = [type(m) for _, m in job.sent if isinstance(m, HandBack | Leave)]
    assert kinds == [HandBack, Leave]
    assert not {thread.name for thread in threading.enumerate() if thread not in before}
    with pytest.raises(UsageError, match="the session is closed"):
        session.log(loss=1.0)


def test_close_does_not_mind_that_the_job_is_gone(job: FakeJob) -> None:
    session = quick_session(job)
    share_line(session)
    next(session.batches(DATA, 2))
    job.lose = lambda _role, _message: True
    session.close()
