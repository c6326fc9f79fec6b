"""One suite for every combination that the docs allow: what holds for all of them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import paceline
from paceline.config import SGD, Pace, Zeros, parse_pace
from paceline.pace.guards import compensation_of
from paceline.pace.policy import steps_locally, updates_in_rounds

RECORDS, BATCH, EPOCHS, TRAINERS = 120, 4, 2, 3
PAGE = Path(__file__).parents[2] / "docs" / "paces.md"

PACES = [
    "sync:reduce=sum",
    "sync:reduce=sum,backup=1",
    "sync:reduce=sum,backup=1,late=again",
    "ssp:0",
    "ssp:2",
    "local:1",
    "local:5",
    "diloco:5",
    "diloco:5,lr=0.5,momentum=0.0",
    "diloco:6,fragments=2",
    "diloco:6,fragments=2,overlap=2,mix=0.25",
    "diloco:6,overlap=2",
    "diloco:5,quorum=2",
    "diloco:4,quorum=1,grace=0.0",
    "async-diloco:5,delay=2",
    "async-diloco:4,lr=0.5,momentum=0.0,delay=1,adapt=no",
    "async",
    "async:push=3,pull=3",
    "async:push=2,pull=4",
    "async:pull=2",
    "async:merge=4",
    "async:push=2,pull=1,merge=4",
    "async:isolation=hogwild",
    "async:pull=2,isolation=hogwild",
    "async:scale=1",
    "ssp:2,scale=0.5,warmup=10",
    "sync:reduce=sum,warmup=10,norm=100",
    "async:drop=1",
    "async:pull=2,drop=2,norm=100",
    "async:push=2,pull=2,drop=0,old=again",
    "ssp:2,drop=1,old=again",
    "async:compensate=0.04",
    "async-diloco:5,scale=0.5,drop=20,norm=100,warmup=3",
    "ssp:2,scale=1,drop=20,compensate=0.04",
    "auto:wait=0.05,least=0.1,loosest=ssp:3,watch=loss,alarm=8.0,reduce=sum",
]


class Counting(nn.Module):
    """Numbers that count all records, and a row for each that counts its own."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.more = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())


class Counted(NamedTuple):
    """What one trainer sees at the end, and what it was delivered."""

    values: torch.Tensor
    rows: torch.Tensor
    delivered: int


def count(session: paceline.Session) -> Counted:
    model, ids, delivered = Counting(), torch.arange(RECORDS), 0
    pace = session._seat.pace
    # Where dense numbers go a way of their own, rows are a part of their own.
    if steps_locally(pace) or compensation_of(pace) is not None:
        session.share(model.seen, pace=paceline.Async())
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for batch in session.batches(ids, BATCH, epochs=EPOCHS, task_size=3 * BATCH):
        delivered += len(batch)
        optimizer.zero_grad()
        dense = model.all.sum() + model.more.sum()
        (len(batch) * dense + model.seen(batch).sum()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        values = torch.cat([model.all, model.more])
        return Counted(-values.detach().clone(), -model.seen(ids).flatten(), delivered)


@pytest.mark.parametrize("text", PACES)
def test_every_record_counts_once_and_all_see_the_same(
    text: str, run: Callable[..., list[Any]]
) -> None:
    pace: Pace = parse_pace(text)
    found: list[Counted] = run(count, trainers=TRAINERS, pace=pace)
    summary = run.jobs[0].close()  # type: ignore[attr-defined]
    total = RECORDS * EPOCHS
    counters = summary["counters"]
    late = counters.get("late_records", 0) + counters.get("old_records", 0)
    assert summary["records"] == total
    assert summary["status"] == "finished"
    assert sum(one.delivered for one in found) == total + late * ("again" in text)
    for one in found[1:]:
        assert torch.equal(one.values, found[0].values)
        assert torch.equal(one.rows, found[0].rows)
    values, rows = found[0].values, found[0].rows
    dropped = 0 if "again" in text else late
    if "compensate" in text:
        assert (rows == EPOCHS).all()
        return
    if "scale" in text or "warmup" in text:
        assert ((rows > 0) & (rows <= EPOCHS)).all(), "steps are shorter, none is missing"
        return
    assert rows.sum() == total - dropped, "each record is in its row once"
    if not dropped:
        assert (rows == EPOCHS).all()
    if not steps_locally(pace):
        assert (values == total - dropped).all()
    else:
        assert (values > 0).all()


def test_no_pace_of_the_docs_is_left_out() -> None:
    """Each option of the table is in the suite, but codecs, which have their own."""
    table = PAGE.read_text().partition("| option |")[2].partition("\n\n")[0]
    options = set(
        re.findall(r"([a-z]+)=", " ".join(re.findall(r"`([a-z-]+:[^`]*)`", table)))
    )
    kinds = set(re.findall(r"`([a-z-]+):", table))
    assert kinds == {text.partition(":")[0] for text in PACES}
    told = " ".join(PACES)
    assert {option for option in options if f"{option}=" not in told} <= {"codec", "codecs"}


@pytest.mark.parametrize("text", PACES)
def test_a_pace_is_read_back_as_it_is_written(text: str) -> None:
    pace = parse_pace(text)
    assert parse_pace(str(pace)) == pace
    assert updates_in_rounds(pace) == text.startswith(("sync", "local", "diloco"))
