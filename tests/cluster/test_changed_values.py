"""What a script changes by itself: as in the plain loop, or refused by name."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch import nn
from torch.nn import functional

import paceline
from paceline.config import Async, DiLoCo, JobConfig, Pace, Sync
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.watch.summary import Ending, Verdict

BATCH, EPOCHS = 8, 2
Each = Callable[[nn.Sequential, int], object]


class Plain:
    """The plain loop: no paceline at all."""

    def share(self, model: nn.Module, optimizer: Any) -> Any:
        del model
        return optimizer

    def batches(self, data: Any, batch_size: int, **_: Any) -> Iterator[Any]:
        for _ in range(EPOCHS):
            for start in range(0, len(data[0]), batch_size):
                yield tuple(one[start : start + batch_size] for one in data)


def columns() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(64, 6, generator=draw), torch.randn(64, 1, generator=draw)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.05, fused=True)


def loop(session: Any, model: Any, optimizer: Any, each: Each = lambda _, __: None) -> None:
    batches = session.batches(
        columns(), BATCH, epochs=EPOCHS, shuffle=False, task_size=4 * BATCH
    )
    for number, (x, y) in enumerate(batches):
        functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        each(model, number)


def values(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def clamp_data(model: nn.Sequential, _: int) -> None:
    for parameter in model.parameters():
        parameter.data.clamp_(-0.05, 0.05)


def clamp(model: nn.Sequential, _: int) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.clamp_(-0.05, 0.05)


def reset_head(model: nn.Sequential, number: int) -> None:
    if number == 8:
        nn.init.zeros_(model[2].weight)


def assign_data(model: nn.Sequential, number: int) -> None:
    if number % 5 == 4:
        model[0].weight.data = model[0].weight.data * 0.5


def last_step(model: nn.Sequential, number: int) -> None:
    if number == 15:
        model[0].weight.data.mul_(0.5)


@pytest.mark.parametrize("pace", [Sync(), Async()], ids=str)
@pytest.mark.parametrize("each", [clamp_data, clamp, reset_head, assign_data, last_step])
def test_one_trainers_changes_in_a_loop_are_those_of_the_plain_loop(
    run: Any, each: Each, pace: Pace
) -> None:
    def script(session: Any) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, adam(model))
        loop(session, model, optimizer, each)
        return values(model)

    [found] = run(script, trainers=1, pace=pace)
    assert torch.equal(found, script(Plain()))


def test_changes_between_backward_and_step_are_those_of_the_plain_loop(run: Any) -> None:
    def script(session: Any) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, adam(model))
        for x, y in session.batches(columns(), BATCH, epochs=EPOCHS, shuffle=False):
            functional.mse_loss(model(x), y).backward()
            clamp(model, 0)
            optimizer.step()
            optimizer.zero_grad()
        return values(model)

    [found] = run(script, trainers=1)
    assert torch.equal(found, script(Plain()))


def test_changes_after_share_and_between_loops_are_those_of_the_plain_loop(
    run: Any,
) -> None:
    def script(session: Any) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, adam(model))
        model.load_state_dict({n: 0.1 * v for n, v in model.state_dict().items()})
        loop(session, model, optimizer)
        nn.init.constant_(model[2].weight.data, 0.03)
        loop(session, model, optimizer)
        return values(model)

    [found] = run(script, trainers=1)
    assert torch.equal(found, script(Plain()))


def test_rows_of_a_sparse_embedding_that_are_changed_are_trained_on(run: Any) -> None:
    def script(session: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Embedding(20, 4, sparse=True)
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.5))
        ids = torch.arange(64) % 7
        for number, (found, _) in enumerate(
            session.batches((ids, ids), BATCH, epochs=EPOCHS, shuffle=False)
        ):
            model(found).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if number in {3, 9}:
                with torch.no_grad():
                    model.weight[5:12] *= 3.0
        return values(model)

    [found] = run(script, trainers=1)
    assert torch.equal(found, script(Plain()))


def test_gradients_that_were_sent_early_meet_the_changed_values(run: Any) -> None:
    def script(session: Any, **how: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(200, 100)
        optimizer = session.share(model, adam(model), **how)
        x = torch.randn(16, 200, generator=torch.Generator().manual_seed(1))
        for one, _ in session.batches((x, x), 4, epochs=EPOCHS, shuffle=False):
            model(one).square().sum().backward()
            with torch.no_grad():
                model.weight.clamp_(-0.03, 0.03)
            optimizer.step()
            optimizer.zero_grad()
        return values(model)

    [found] = run(lambda session: script(session, overlap=True), trainers=1)
    assert torch.equal(found, script(Plain()))


def test_an_evaluation_sees_what_was_changed(run: Any) -> None:
    def script(session: Any) -> float:
        model = net()
        optimizer = session.share(model, adam(model))
        loop(session, model, optimizer)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        metric = torchmetrics.MeanMetric()
        return float(session.evaluate(metric, lambda b: model(b[0]).abs(), columns()))

    assert run(script, trainers=1) == [0.0]


# ---------------------------------------------------------------- what cannot be


def test_values_that_lack_a_push_are_not_sent_in_its_place(run: Any) -> None:
    def script(session: Any) -> None:
        model = net()
        optimizer = session.share(model, adam(model))
        loop(session, model, optimizer, clamp)

    with pytest.raises(
        UsageError, match=r"'0.weight' and 3 more .* lack a step .* async:push=1,pull=2"
    ):
        run(script, trainers=1, pace=Async(pull_every=2))


def test_values_that_lack_a_push_are_set_by_the_call(run: Any) -> None:
    def script(session: Any) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.0))

        def each(model: nn.Sequential, number: int) -> None:
            if number == 2:
                clamp(model, 0)
                session.set_values(model)

        loop(session, model, optimizer, each)
        return values(model)

    expected = net()
    clamp(expected, 0)
    [found] = run(script, trainers=1, pace=Async(pull_every=2))
    assert torch.equal(found, values(expected))


def test_several_trainers_are_told_by_name_what_would_be_overwritten(run: Any) -> None:
    def script(session: Any) -> str:
        model = net()
        session.share(model, adam(model))
        model[0].bias.data.zero_()
        with pytest.raises(UsageError, match=r"'0.bias' was changed .* 2 trainers") as told:
            next(iter(session.batches(columns(), BATCH)))
        return str(told.value)

    for text in run(script, trainers=2):
        assert "session.set_values(model)" in text


def test_in_a_loop_several_trainers_can_only_be_refused(run: Any) -> None:
    meet = threading.Barrier(2, timeout=30)

    def script(session: Any) -> None:
        model = net()
        optimizer = session.share(model, adam(model))
        for number, (x, y) in enumerate(session.batches(columns(), BATCH)):
            functional.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            if number == 2:
                clamp(model, 0)
                with pytest.raises(UsageError, match=r"set_values: in a loop .* are 2"):
                    session.set_values(model)
                functional.mse_loss(model(x), y).backward()
                with pytest.raises(UsageError, match=r"'0.weight' and 3 more parameters"):
                    optimizer.step()
                meet.wait()
                return

    run(script, trainers=2)


def test_a_job_that_has_grown_refuses_from_then_on(tmp_path: Path) -> None:
    job = EmbeddedJob(JobConfig(run="grows"), tmp_path / "job")
    with job.session("trainer-0") as session:
        model = net()
        optimizer = session.share(model, adam(model))
        seen = 0

        def each(model: nn.Sequential, number: int) -> None:
            nonlocal seen
            seen = number
            clamp(model, number)
            if number == 4:
                job.session("trainer-1")

        with pytest.raises(UsageError, match="the job has 2 trainers"):
            loop(session, model, optimizer, each)
        assert seen == 4
    job.close()


def test_values_that_each_trainer_moves_itself_are_left_to_it(run: Any) -> None:
    def script(session: Any) -> None:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with pytest.raises(UsageError, match=r"set_values: '0.weight' is moved by each"):
            session.set_values(model)
        loop(session, model, optimizer, clamp)

    run(script, trainers=1, pace=DiLoCo(every=4))


def test_what_is_not_shared_cannot_be_set(run: Any) -> None:
    def script(session: Any) -> None:
        with pytest.raises(UsageError, match="no parameter of the model lives on servers"):
            session.set_values(net())

    run(script, trainers=1)


# ---------------------------------------------------------------- several, by the call


@pytest.mark.parametrize("pace", [Sync(), Async()], ids=str)
def test_the_first_trainers_values_are_everybodys(run: Any, pace: Pace) -> None:
    def script(session: Any) -> tuple[torch.Tensor, torch.Tensor]:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.0))
        loop(session, model, optimizer)
        with torch.no_grad():
            model[0].weight.fill_(int(session.trainer[-1]) + 1)
        session.set_values(model)
        before = values(model)
        loop(session, model, optimizer)
        return before, values(model)

    found = run(script, trainers=3, pace=pace)
    assert all(torch.equal(before, found[0][0]) for before, _ in found)
    assert all(torch.equal(after, found[0][0]) for _, after in found)
    assert float(found[0][0][0]) in {1.0, 2.0, 3.0}


def test_a_trainer_that_begins_again_does_not_undo_what_was_trained(tmp_path: Path) -> None:
    job = EmbeddedJob(JobConfig(run="again", trainers=2), tmp_path / "job")

    def script(session: paceline.Session) -> torch.Tensor:
        model = net()
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
        clamp(model, 0)
        session.set_values(model)
        begins = values(model)
        loop(session, model, optimizer)
        return begins

    sessions = [job.session(f"trainer-{index}") for index in range(2)]
    threads = [threading.Thread(target=script, args=(one,)) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for session in sessions:
        session.close()
    clamped = net()
    clamp(clamped, 0)
    begins = script(job.session("trainer-2"))
    assert not torch.equal(begins, values(clamped)), "it has what was trained since"
    job.close()


def test_a_resumed_script_does_not_set_again_what_was_trained_since(tmp_path: Path) -> None:
    found = []
    for is_resumed in (False, True):
        config = JobConfig(run=f"resumed-{is_resumed}")
        job = EmbeddedJob(config, tmp_path / "job", is_resumed=is_resumed)
        with job.session("trainer-0") as session:
            model = net()
            optimizer = session.share(model, adam(model))
            model.load_state_dict({n: 0 * v for n, v in model.state_dict().items()})
            loop(session, model, optimizer)
            found.append(values(model))
        job.close()
    assert torch.equal(*found)
    assert found[0].abs().sum() > 0


# ---------------------------------------------------------------- after the power went


def test_what_was_set_between_loops_is_in_a_cut(tmp_path: Path) -> None:
    job = EmbeddedJob(JobConfig(run="begins", servers=2), tmp_path / "job")
    session = job.session("trainer-0")
    model = net()
    session.share(model, adam(model))
    clamp(model, 0)
    session.set_values(model)
    job.close(Verdict(Ending.FAILED, "the power went"))
    session.membership.driver.close()
    resumed = EmbeddedJob(JobConfig(run="goes on"), tmp_path / "job", is_resumed=True)
    with resumed.session("trainer-0") as session:
        found = net()
        session.share(found, adam(found))
        assert torch.equal(values(found), values(model))
    resumed.close()
