"""Trainers that step several shared models, in one order and in two."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.errors import UsageError
from tests.cluster.together import shared

Run = Callable[..., list[Any]]
_UNEVEN = [(64, 10, 5), (70, 6, 2), (71, 14, 4)]
DATA = torch.arange(32.0).reshape(32, 1) / 32


def stepping(
    order_of: Callable[[str], tuple[int, ...]],
) -> Callable[[paceline.Session], str]:
    """A script of two models that are stepped in a trainer's own order in every batch."""

    def script(session: paceline.Session) -> str:
        models = [nn.Linear(1, 1, bias=False), nn.Linear(1, 2)]
        optimizers = [shared(session, model) for model in models]
        try:
            for batch in session.batches(DATA, 2):
                for model in models:
                    model(batch).sum().backward()
                for number in order_of(session.trainer):
                    optimizers[number].step()
                    optimizers[number].zero_grad()
        except UsageError as error:
            return str(error)
        return "trained"

    return script


def test_two_orders_are_refused_to_all_who_wait(run: Run) -> None:
    script = stepping(lambda trainer: (0, 1) if trainer == "trainer-0" else (1, 0))
    first, second = run(script, trainers=2)
    assert first == second
    assert "trainer-0 steps part 0 ('weight') before part 1 ('weight')" in first
    assert "trainer-1 steps part 1 ('weight') before part 0 ('weight')" in first
    assert "in one order on all trainers" in first


def test_one_that_differs_from_two_stops_all(run: Run) -> None:
    script = stepping(lambda trainer: (1, 0) if trainer == "trainer-1" else (0, 1))
    found = run(script, trainers=3)
    assert all("trainer-1 steps part 1" in text for text in found)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_order_on_all_trainers_trains(run: Run, order: tuple[int, ...]) -> None:
    assert run(stepping(lambda _: order), trainers=3) == ["trained"] * 3


def test_parts_without_rounds_are_stepped_as_one_likes(run: Run) -> None:
    script = stepping(lambda trainer: (0, 1) if trainer == "trainer-0" else (1, 0))
    assert run(script, trainers=2, pace=paceline.Async()) == ["trained"] * 2


def test_an_async_part_beside_a_sync_one_is_stepped_as_one_likes(run: Run) -> None:
    def script(session: paceline.Session) -> int:
        models = [nn.Linear(1, 1), nn.Linear(1, 2)]
        one, other = models
        rates = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        optimizers = [
            session.share(one, rates[0]),
            session.share(other, rates[1], pace="async"),
        ]
        if session.trainer == "trainer-1":
            optimizers.reverse()
        seen = 0
        for batch in session.batches(DATA, 2):
            for model in models:
                model(batch).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            seen += len(batch)
        return seen

    assert sum(run(script, trainers=2)) == 32


def test_a_part_stepped_in_some_batches_is_so_on_all_trainers(run: Run) -> None:
    def script(session: paceline.Session) -> int:
        critic, maker = nn.Linear(1, 1), nn.Linear(1, 1)
        often, seldom = shared(session, critic), shared(session, maker)
        for number, batch in enumerate(session.batches(DATA, 2, task_size=16), 1):
            maker(batch).sum().backward()
            critic(batch).sum().backward()
            often.step()
            often.zero_grad()
            if number % 4 == 0:
                seldom.step()
                seldom.zero_grad()
        return number

    assert run(script, trainers=2) == [8, 8]


@pytest.mark.parametrize(
    ("records", "task", "every"), [(64, 10, 5), (70, 6, 2), (71, 14, 4)]
)
def test_tasks_that_end_at_different_places_are_trained_or_refused(
    run: Run, records: int, task: int, every: int
) -> None:
    """What waits for its step leaves where a trainer's tasks end: elsewhere for each."""
    data = torch.arange(float(records)).reshape(records, 1) / records

    def script(session: paceline.Session) -> int | str:
        critic, maker = nn.Linear(1, 1), nn.Linear(1, 1)
        often, seldom = shared(session, critic), shared(session, maker)
        try:
            for number, batch in enumerate(session.batches(data, 2, task_size=task), 1):
                for model, optimizer in ((critic, often), (maker, seldom)):
                    if model is maker and number % every:
                        continue
                    model(batch).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        except UsageError as error:
            return str(error)
        return session.records

    first, second = run(script, trainers=2)
    assert first == second
    if first != records:
        assert "they wait for each other" in first
        assert "what is accumulated leaves by itself where a trainer's tasks end" in first
