"""What `session.batches` returns, where several trainers make it."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.errors import UsageError
from tests.cluster.together import shared

Run = Callable[..., list[Any]]
DATA = torch.arange(24.0).reshape(24, 1)


def a_model(session: paceline.Session) -> tuple[nn.Module, Any]:
    model = nn.Linear(1, 1)
    return model, shared(session, model)


def train(batches: Any, model: nn.Module, optimizer: Any) -> list[float]:
    seen: list[float] = []
    for batch in batches:
        seen += batch.flatten().tolist()
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    return seen


def test_what_is_made_and_never_iterated_holds_up_nobody(run: Run) -> None:
    def script(session: paceline.Session) -> list[float]:
        model, optimizer = a_model(session)
        session.batches(DATA, 2)
        if session.trainer == "trainer-0":
            session.batches(DATA[:8], 4)
        return train(session.batches(DATA, 2), model, optimizer)

    found = run(script, trainers=2)
    assert sorted(found[0] + found[1]) == DATA.flatten().tolist()


def test_a_loop_that_is_refused_and_caught_holds_up_nobody(run: Run) -> None:
    def script(session: paceline.Session) -> tuple[str, list[float], list[float]]:
        model, optimizer = a_model(session)
        mine, others = DATA[2:], DATA[:22]
        if session.trainer == "trainer-1":
            mine, others = others, mine
        refusal = ""
        try:
            seen = train(session.batches(mine, 2), model, optimizer)
        except UsageError as error:  # who comes second
            refusal = str(error)
            seen = train(session.batches(others, 2), model, optimizer)
        return refusal, seen, train(session.batches(DATA, 2), model, optimizer)

    found = run(script, trainers=2)
    first, second = sorted(refusal for refusal, _, _ in found)
    assert not first
    assert "All trainers of a job bring the same data" in second
    assert len(found[0][1] + found[1][1]) == 22
    assert sorted(found[0][2] + found[1][2]) == DATA.flatten().tolist()


def test_stages_are_numbered_as_they_are_iterated(run: Run) -> None:
    def script(session: paceline.Session) -> int:
        model, optimizer = a_model(session)
        later, sooner = session.batches(DATA, 2), session.batches(DATA[:8], 2)
        both = train(sooner, model, optimizer), train(later, model, optimizer)
        return sum(map(len, both))

    assert sum(run(script, trainers=2)) == 24 + 8


@pytest.mark.parametrize("trainers", [1, 2])
def test_later_loops_have_orders_of_their_own(run: Run, trainers: int) -> None:
    def script(session: paceline.Session) -> list[list[float]]:
        model, optimizer = a_model(session)
        return [train(session.batches(DATA, 2), model, optimizer) for _ in range(3)]

    found = run(script, trainers=trainers)
    for loop in range(3):
        of_all = [record for one in found for record in one[loop]]
        assert sorted(of_all) == DATA.flatten().tolist()
    if trainers == 1:
        first, second, third = found[0]
        assert first != second
        assert second != third
        assert first != third


def test_its_length_is_that_of_the_whole_jobs_loop(run: Run) -> None:
    def script(session: paceline.Session) -> tuple[int, int]:
        model, optimizer = a_model(session)
        batches = session.batches(DATA[:23], 2, epochs=2, task_size=6)
        seen = 0
        for batch in batches:
            seen += 1
            model(batch).sum().backward()
            optimizer.step()
        return len(batches), seen

    found = run(script, trainers=2)
    assert [length for length, _ in found] == [24, 24]
    assert sum(seen for _, seen in found) == 24


def test_it_is_an_iterator_and_begins_once(run: Run) -> None:
    def script(session: paceline.Session) -> list[list[float]]:
        model, optimizer = a_model(session)
        batches = session.batches(DATA, 2, shuffle=False)
        seen = []
        for batch in (next(batches), *islice(batches, 0)):
            seen.append(batch.flatten().tolist())
            model(batch).sum().backward()
            optimizer.step()
        with pytest.raises(UsageError, match="is iterated once, and this one has been"):
            iter(batches)
        batches.close()
        rest = train(session.batches(DATA[:4], 2, shuffle=False), model, optimizer)
        return [*seen, rest]

    assert run(script, trainers=1) == [[[0.0, 1.0], [0.0, 1.0, 2.0, 3.0]]]
