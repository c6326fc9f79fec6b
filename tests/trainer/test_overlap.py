"""With `async:pull=2` a trainer computes on while its last push is under way."""

import numpy as np
import pytest
import torch
from torch import nn

from paceline.config import Adagrad, Async, Uniform, Zeros
from paceline.ids import Span, Window
from paceline.messages.data import Pull, PulledRows, PullRows, Push, Pushed
from paceline.messages.shared import Message, PartPlan, PartSpec, TableSpec, Waiting
from paceline.messages.trainer import AskRecords
from paceline.messages.waits import Wait
from paceline.params.codecs.named import codec_of
from paceline.trainer.client.driver import Payload
from paceline.trainer.rows.embedding import Embedding
from paceline.trainer.rows.routing import Router, WantedRows, pushed_with, row_requests
from paceline.trainer.session import Session
from tests.trainer.fake_job import FakeJob
from tests.trainer.lines import DATA, share_line, stepper

OVERLAPPED = Async(pull_every=2)
IDS = torch.arange(24).reshape(12, 2) % 7
LABELS = torch.linspace(-1, 1, 12)
BATCH = 2


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = Embedding("id", 3, optimizer=Adagrad(lr=0.05), init=Uniform(0.5))
        self.weights = nn.Linear(6, 1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weights(self.rows(ids).flatten(1)).squeeze(1)


def train(session: Session, *, logs: bool = False) -> tuple[Scorer, list[torch.Tensor]]:
    """The model, and its dense weights as each batch saw them."""
    torch.manual_seed(1)
    model, seen = Scorer(), []
    optimizer = torch.optim.SGD(model.weights.parameters(), lr=0.1)
    optimizer = session.share(model, optimizer)
    batches = session.batches((IDS, LABELS), BATCH, shuffle=False, task_size=12)
    for ids, labels in batches:
        seen.append(model.weights.weight.detach().clone())
        loss = nn.functional.mse_loss(model(ids), labels)
        if logs:
            session.log(loss=loss.item())
        loss.backward()
        assert torch.equal(seen[-1], model.weights.weight), "changed under the user"
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return model, seen


def without_the_last_batch() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A plain loop whose every batch sees all steps but that of the batch before."""
    torch.manual_seed(1)
    job = FakeJob(servers=1, pace=Async())
    with job.session() as session:
        model = Scorer()
        optimizer = torch.optim.SGD(model.weights.parameters(), lr=0.1)
        session.share(model, optimizer)
        model.eval()
        table = nn.Embedding.from_pretrained(
            model.rows(torch.arange(7)).detach(), freeze=False
        )
    weights = model.weights
    before = [[p.detach().clone() for p in (table.weight, *weights.parameters())]]
    rows_sum = torch.zeros_like(table.weight)
    seen = []
    current = [p.detach().clone() for p in (table.weight, *weights.parameters())]
    for number, (ids, labels) in enumerate(
        zip(IDS.split(BATCH), LABELS.split(BATCH), strict=True)
    ):
        visible = before[max(0, number - 1)] if number > 1 else before[0]
        if number == 1:
            visible = [before[1][0], *before[0][1:]]  # rows were looked up behind push 0
        leaves = [v.clone().requires_grad_() for v in visible]
        seen.append(leaves[1].detach().clone())
        found = nn.functional.embedding(ids, leaves[0]).flatten(1)
        out = nn.functional.linear(found, leaves[1], leaves[2]).squeeze(1)
        nn.functional.mse_loss(out, labels).backward()
        rows_sum += leaves[0].grad ** 2
        touched = leaves[0].grad.abs().sum(1, keepdim=True) > 0
        step = 0.05 * leaves[0].grad / (rows_sum.sqrt() + 1e-10)
        current[0] = torch.where(touched, current[0] - step, current[0])
        for index in (1, 2):
            current[index] = current[index] - 0.1 * leaves[index].grad
        before.append([value.clone() for value in current])
    return seen, current


@pytest.mark.parametrize("logs", [False, True])
def test_every_batch_lacks_the_step_of_the_one_before_and_nothing_else(
    logs: bool,
) -> None:
    expected_seen, expected = without_the_last_batch()
    with FakeJob(servers=2, pace=OVERLAPPED).session() as session:
        model, seen = train(session, logs=logs)
        model.eval()
        rows = model.rows(torch.arange(7)).detach()
    for mine, theirs in zip(seen, expected_seen, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(rows, expected[0], rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(model.weights.parameters(), expected[1:], strict=True):
        torch.testing.assert_close(mine.detach(), theirs, rtol=1e-5, atol=1e-6)


def test_a_push_is_posted_before_the_last_one_is_forgotten_and_never_two() -> None:
    job = FakeJob(servers=1, pace=OVERLAPPED)
    with job.session() as session:
        train(session)
    numbers = [m.number for m in job.of(Push)]
    assert numbers == [1, 2, 3, 4, 5, 6]
    kinds = "".join(
        type(m).__name__[-1] for _, m in job.sent if isinstance(m, Push | Pull | PullRows)
    )
    assert kinds.count("s") == 6, f"every batch's rows are asked for once: {kinds}"


def test_a_step_asks_a_server_once_for_its_push_and_the_rows_to_come() -> None:
    job = FakeJob(servers=1, pace=OVERLAPPED)
    with job.session() as session:
        train(session)
    asked = [m.behind is not None for m in job.of(Push)]
    assert asked == [True, True, True, True, False, False], "no batch comes behind the last"


@pytest.mark.parametrize("codec", [None, "bf16", "int8"])
def test_rows_land_as_they_would_from_a_question_of_their_own(codec: str | None) -> None:
    spec = PartSpec(
        part=0,
        parameters=(),
        optimizer=None,
        tables=(TableSpec("id", 4, Adagrad(), Zeros()),),
        pace=Async(pull_every=2, codec=codec),
    )
    plan = PartPlan(spec, (), 0, 1, {0: "server-0"})
    coder = codec_of(plan)
    push = Push(
        incarnation=1,
        timeline=0,
        part=0,
        number=1,
        window=Window(0, 0, (Span(0, 0, 0),)),
        records=1,
    )
    route, _ = Router("id", plan).route(np.array([4, -7, 9]))
    rows = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = []
    for is_behind in (True, False):
        values = torch.zeros(3, 4)
        wanted = [WantedRows(route, values)]
        [payload] = row_requests(0, wanted, create=True, codec=coder).values()
        reply: Message = PulledRows(version=0, round=0)
        if is_behind:
            payload = pushed_with(Payload(push, [b"gradient"]), payload)
            reply = Pushed(verdict="applied", version=0, behind=reply)
        assert payload.landing is not None
        [place] = payload.landing(reply, payload.reply_sizes)
        if coder is None:
            np.asarray(place)[:] = rows
        else:
            coder.encode_rows(rows, np.asarray(place))
        if payload.landed is not None:
            assert payload.landed(reply) is reply
        found.append(values.clone())
        assert payload.landing(Waiting(wait=Wait("servers", "busy")), ()) == []
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    assert found[0].any()


@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_push_that_is_repeated_later_has_the_gradients_of_its_own_step(
    number: int,
) -> None:
    with FakeJob(servers=2, pace=OVERLAPPED).session() as session:
        expected, _ = train(session)
    job, lost = FakeJob(servers=2, pace=OVERLAPPED), []

    def lose(role: str, message: object) -> bool:
        is_it = isinstance(message, Push) and message.number == number
        if is_it and role == "server-1" and not lost:
            lost.append(message)
            return True
        return False

    job.lose = lose
    with job.session() as session:
        found, _ = train(session)
    assert lost
    for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def test_all_records_count_when_the_loop_is_over() -> None:
    job = FakeJob(servers=2, pace=OVERLAPPED)
    with job.session() as session:
        train(session)
        assert session.records == len(IDS)


@pytest.mark.parametrize("push_every", [1, 2, 3])
@pytest.mark.parametrize("pull_every", [1, 2, 3, 4, 6, 9])
def test_no_batch_lacks_more_of_its_own_than_the_pace_says(
    push_every: int, pull_every: int
) -> None:
    """Weights count the batches that they have seen."""
    if pull_every < push_every:
        pytest.skip("values cannot be newer than what was pushed")
    pace = Async(push_every=push_every, pull_every=pull_every)
    with FakeJob(servers=1, pace=pace).session() as session:
        model = nn.Linear(1, 1, bias=False)
        model.weight.data.zero_()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0, maximize=True)
        optimizer = session.share(model, optimizer)
        lacking = []
        data = torch.ones(40, 1)
        for number, batch in enumerate(
            session.batches(data, 1, shuffle=False, task_size=40)
        ):
            lacking.append(number - round(model.weight.item()))
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert max(lacking) <= max(pull_every, push_every) - 1, lacking
        assert model.weight.item() == 40


def test_a_push_that_an_interrupted_question_lets_go_of_is_pushed_again() -> None:
    """As in a notebook: whoever catches it trains on, and servers know the push."""
    job = FakeJob(pace=OVERLAPPED)
    with job.session() as session:
        step = stepper(*share_line(session))
        batches = session.batches(DATA, 2, shuffle=False, task_size=12)
        for number, batch in enumerate(batches):
            step(batch)
            if number == 1:
                job.lose = interrupt
                with pytest.raises(KeyboardInterrupt):
                    _ = session.records
                job.lose = lambda _role, _message: False
    assert [push.number for push, _ in job.pushed] == [1, 2, 2, 3, 4, 5, 6]
    assert job.pushed[1] == job.pushed[2]


def interrupt(_role: str, message: Message) -> bool:
    if isinstance(message, AskRecords):
        raise KeyboardInterrupt
    return False
