"""A prefetcher that says `lookahead`: every record is counted once, whoever goes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.errors import UsageError

Run = Callable[..., list[Any]]
RECORDS = 48


class Counts(nn.Module):
    """Sees how often each record was stepped."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(RECORDS))


def ahead(batches: Iterable[Any], number: int) -> Iterator[Any]:
    held = []
    for batch in batches:
        held.append(batch)
        if len(held) > number:
            yield held.pop(0)
    yield from held


def counted(session: paceline.Session, pace: str) -> tuple[Counts, Any]:
    model = Counts()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return model, session.share(model, optimizer, pace=pace)


def step(model: Counts, optimizer: Any, ids: torch.Tensor) -> None:
    optimizer.zero_grad()
    (-model.seen[ids].sum()).backward()
    optimizer.step()


def loop(session: paceline.Session, lookahead: int) -> Iterator[Any]:
    said = {"task_size": 8, "shuffle": False, "lookahead": lookahead}
    return ahead(session.batches(torch.arange(RECORDS), 4, **said), lookahead)


@pytest.mark.parametrize("lookahead", [1, 2, 3])
def test_every_record_counts_once(run: Run, lookahead: int) -> None:
    def script(session: paceline.Session) -> tuple[list[float], int]:
        model, optimizer = counted(session, "sync")
        for ids in loop(session, lookahead):
            step(model, optimizer, ids)
        return model.seen.tolist(), session.records

    [(seen, records)] = run(script, trainers=1)
    assert seen == [1.0] * RECORDS
    assert records == RECORDS


@pytest.mark.parametrize(("pace", "share"), [("sync", 0.5), ("async", 1.0)])
def test_what_one_leaves_in_mid_loop_another_trains_once(
    run: Run, pace: str, share: float
) -> None:
    def script(session: paceline.Session) -> tuple[list[float], int]:
        model, optimizer = counted(session, pace)
        for number, ids in enumerate(loop(session, 1)):
            step(model, optimizer, ids)
            if session.trainer == "trainer-1" and number == 1:
                session.close()
                return [], 0
        return model.seen.tolist(), session.records

    (seen, records), _ = run(script, trainers=2)
    assert records == RECORDS
    assert min(seen) >= share
    assert max(seen) <= 1.0


def test_epochs_in_one_loop_are_refused(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        counted(session, "sync")
        session.batches(torch.arange(RECORDS), 4, epochs=2, lookahead=1)

    with pytest.raises(UsageError, match="make a loop of each epoch"):
        run(script, trainers=1)
