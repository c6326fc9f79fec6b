"""A prefetcher that says `lookahead`: every record is counted once, whoever goes."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import JobConfig
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob

Run = Callable[..., list[Any]]
RECORDS = 48
PATIENCE_S = 30.0


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
    has_left = threading.Event()

    def script(session: paceline.Session) -> tuple[list[float], int]:
        model, optimizer = counted(session, pace)
        for number, ids in enumerate(loop(session, 1)):
            if pace == "async" and session.trainer == "trainer-0" and number == 1:
                assert has_left.wait(PATIENCE_S)  # else it may be done before
            step(model, optimizer, ids)
            if session.trainer == "trainer-1" and number == 1:
                session.close()
                has_left.set()
                return [], 0
        return model.seen.tolist(), session.records

    (seen, records), _ = run(script, trainers=2)
    assert records == RECORDS
    assert min(seen) >= share
    assert max(seen) <= 1.0


@pytest.mark.parametrize(
    ("lookahead", "trainers"), [(3, 1), (1, 2), (2, 2), (2, 3), (3, 3)]
)
@pytest.mark.parametrize("pace", ["sync:reduce=sum", "async", "ssp:1"])
def test_every_record_counts_once_while_cuts_are_taken(
    run: Run, pace: str, lookahead: int, trainers: int
) -> None:
    def script(session: paceline.Session) -> tuple[list[float], int]:
        model, optimizer = counted(session, pace)
        for _epoch in range(2):
            for ids in loop(session, lookahead):
                step(model, optimizer, ids)
        return model.seen.tolist(), session.records

    for seen, records in run(script, trainers=trainers, cut_every_steps=2):
        assert seen == [2.0] * RECORDS
        assert records == 2 * RECORDS


@pytest.mark.parametrize("lookahead", [2, 17])
def test_tasks_of_one_batch_are_held_as_many_as_are_taken(run: Run, lookahead: int) -> None:
    def script(session: paceline.Session) -> list[float]:
        model, optimizer = counted(session, "async")
        said = {"task_size": 2, "lookahead": lookahead}
        for ids in ahead(session.batches(torch.arange(RECORDS), 2, **said), lookahead):
            step(model, optimizer, ids)
        return model.seen.tolist()

    assert run(script, trainers=1) == [[1.0] * RECORDS]


def test_break_hands_back_what_was_ahead(run: Run) -> None:
    """One leaves with two in hand, the other trains them, and is not at its end by then."""
    has_left = threading.Event()

    def script(session: paceline.Session) -> tuple[list[float], int, int]:
        model, optimizer = counted(session, "async")
        steps = 0
        for ids in loop(session, 2):
            step(model, optimizer, ids)
            steps += 1
            if session.trainer == "trainer-0" and steps == 2:
                break
            if session.trainer == "trainer-1" and steps == 2:
                assert has_left.wait(PATIENCE_S)
        has_left.set()
        for ids in loop(session, 0):
            step(model, optimizer, ids)
        return model.seen.tolist(), session.records, steps

    found = run(script, trainers=2, cut_every_steps=2)
    assert sorted(steps for _, _, steps in found) == [2, RECORDS // 4 - 2]
    for seen, records, _ in found:
        assert seen == [2.0] * RECORDS
        assert records == 2 * RECORDS


@pytest.mark.parametrize("pace", ["sync:reduce=sum", "async"])
def test_a_resumed_job_trains_what_was_ahead_and_not_what_is_in_its_cut(
    tmp_path: Path, pace: str
) -> None:
    kept: list[Iterator[Any]] = []  # a loop that nobody looks at would be left by break

    def script(session: paceline.Session, last: int | None) -> tuple[list[float], int, int]:
        model, optimizer = counted(session, pace)
        batches, steps = loop(session, 2), 0
        kept.append(batches)
        for ids in batches:
            step(model, optimizer, ids)
            steps += 1
            if steps == last:
                session.save()
            elif last is not None and steps > last + 1:
                break
        return model.seen.tolist(), session.records if last is None else 0, steps

    found = []
    for last in (5, None):
        config = JobConfig(run=f"run-{last}", servers=2)
        job = EmbeddedJob(config, tmp_path / "job", is_resumed=last is None)
        try:
            found.append(script(job.session("trainer-0"), last))
        finally:
            job.close()
    (before, _, gone), (seen, records, _) = found
    assert (gone, max(before)) == (7, 1.0)
    assert seen == [1.0] * RECORDS
    assert records == RECORDS
    assert found[1][2] == RECORDS // 4 - 5  # what was stepped behind the cut, too


def test_epochs_in_one_loop_are_refused(run: Run) -> None:
    def script(session: paceline.Session) -> None:
        counted(session, "sync")
        session.batches(torch.arange(RECORDS), 4, epochs=2, lookahead=1)

    with pytest.raises(UsageError, match="make a loop of each epoch"):
        run(script, trainers=1)
