"""The pace of a running job changes: nothing is lost, and nothing counts twice."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import paceline
from paceline.config import SGD, Zeros, parse_pace
from paceline.ids import OPERATOR
from paceline.launch.job.wiring import Wires
from paceline.messages.shared import Done, Refusal, Waiting
from paceline.messages.watching import ChangePace
from paceline.timing import SystemClock

RECORDS, BATCH, TRAINERS = 120, 4, 3
LONG = 10**6  # epochs: the script stops the job
CHANGES = [
    "ssp:2",
    "async",
    "async:push=4,pull=8",
    "sync:reduce=sum,backup=1,late=again",
    "async:pull=2",
    "sync:reduce=sum,codec=bf16",
    "async:merge=4",
    "ssp:0",
    "sync:reduce=sum",
    "async:push=2,pull=1,merge=4",
]


def ask(pace: str, part: str = "") -> Done | Refusal:
    """Ask the coordinator, as `paceline pace` does, until it has an answer."""
    wires = Wires("evaluation", OPERATOR, SystemClock())
    with wires.operate("inproc:evaluation/coordinator") as connection:
        while True:
            message = ChangePace(pace=parse_pace(pace), part=part)
            answer = connection.call(message, timeout_s=60.0).message
            if not isinstance(answer, Waiting):
                assert isinstance(answer, Done | Refusal)
                return answer


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Parameter(torch.zeros(4, dtype=torch.float64))
        self.seen = paceline.Embedding("seen", 1, optimizer=SGD(lr=1.0), init=Zeros())


class Operator:
    """Asks for one change after the other, beside the trainers."""

    def __init__(self, *changes: tuple[str, str]) -> None:
        self.answers: list[Done | Refusal] = []
        self.is_over = threading.Event()
        self._changes = changes
        self._thread = threading.Thread(target=self._run)
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Whichever trainer comes first."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def _run(self) -> None:
        try:
            for pace, part in self._changes:
                self.answers.append(ask(pace, part))
        finally:
            self.is_over.set()

    def join(self) -> None:
        self._thread.join(timeout=60)


def counting(operator: Operator, *, rows_apart: bool = False) -> Any:
    def script(session: paceline.Session) -> Any:
        model, ids = Counting(), torch.arange(RECORDS)
        if rows_apart:
            session.share(model.seen, pace=paceline.Async())
        optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
        for batch in session.batches(ids, BATCH, epochs=LONG, task_size=3 * BATCH):
            operator.begin()
            if operator.is_over.is_set():
                session.stop("all changes are made")
            optimizer.zero_grad()
            (len(batch) * model.all.sum() + model.seen(batch).sum()).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            return -model.all.detach().clone(), -model.seen(ids).flatten()

    return script


def test_a_job_that_changes_its_pace_ten_times_counts_exactly(
    run: Callable[..., list[Any]],
) -> None:
    operator = Operator(*((pace, "") for pace in CHANGES))
    found = run(counting(operator), trainers=TRAINERS, pace=parse_pace("sync:reduce=sum"))
    operator.join()
    status = run.jobs[0]._coordinator.status()  # type: ignore[attr-defined]
    assert operator.answers == [Done()] * len(CHANGES)
    assert (status.timeline, status.pace) == (len(CHANGES), CHANGES[-1])
    assert status.records > 0
    for values, rows in found:
        assert (values == status.records).all()
        assert rows.sum() == status.records
        assert torch.equal(rows, found[0][1])


def test_a_part_goes_to_local_steps_and_back_while_the_rows_beside_it_stay(
    run: Callable[..., list[Any]],
) -> None:
    operator = Operator(
        ("local:4", "0"),
        ("local:4", "all"),
        ("ssp:1", "seen"),
        ("diloco:3", "1"),
        ("async:push=3,pull=3", "1"),
        ("sync:reduce=sum", "1"),
    )
    script = counting(operator, rows_apart=True)
    found = run(script, trainers=TRAINERS, pace=parse_pace("sync:reduce=sum"))
    operator.join()
    texts = [
        answer.text if isinstance(answer, Refusal) else "" for answer in operator.answers
    ]
    assert "part 0 cannot go from async to local:4: the rows of 'seen'" in texts[0]
    assert "who waits for a clock in one is waited for in a round" in texts[2]
    assert [text for text in texts if text] == [texts[0], texts[2]]
    status = run.jobs[0]._coordinator.status()  # type: ignore[attr-defined]
    assert status.pace == "part 0 async; part 1 sync:reduce=sum"
    for values, rows in found:
        assert rows.sum() == status.records, "a record counts once in its row"
        assert torch.equal(values, found[0][0])


def learning(changes: tuple[str, ...], run: Any) -> Any:
    """A loop that lets a change begin at every tenth batch, and values at its end."""

    def script(session: paceline.Session) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = session.share(model, torch.optim.Adam(model.parameters(), lr=0.01))
        draw = torch.Generator().manual_seed(1)
        data = torch.randn(80, 3, generator=draw)
        threads = []
        loop = session.batches(data, 2, epochs=2, task_size=16)
        for number, batch in enumerate(loop, 1):
            if number % 10 == 0 and number // 10 <= len(changes):
                threads.append(begin_change(changes[number // 10 - 1], run.jobs[-1]))
            optimizer.zero_grad()
            ((model(batch).flatten() - batch.sum(1)) ** 2).mean().backward()
            optimizer.step()
        for thread in threads:
            thread.join()
        return [one.detach().clone() for one in model.parameters()]

    return script


def begin_change(pace: str, job: Any) -> threading.Thread:
    """Returns when the coordinator knows of it; it cannot be done before a step."""
    thread = threading.Thread(target=ask, args=(pace,))
    thread.start()
    while job._coordinator.status().changing is None:
        assert thread.is_alive()
        time.sleep(0.001)
    return thread


@pytest.mark.parametrize(
    "changes",
    [("ssp:1", "async", "sync"), ("async:merge=4", "sync:backup=1", "ssp:0")],
)
def test_one_trainer_is_the_same_to_the_bit_whatever_paces_it_has_gone_through(
    changes: tuple[str, ...], run: Callable[..., list[Any]]
) -> None:
    [plain] = run(learning((), run), trainers=1)
    run.jobs[-1].close()  # type: ignore[attr-defined]
    [changed] = run(learning(changes, run), trainers=1)
    assert run.jobs[-1]._coordinator.status().timeline == len(changes)  # type: ignore[attr-defined]
    for one, other in zip(plain, changed, strict=True):
        assert torch.equal(one, other)


def test_what_was_taken_ahead_of_its_step_is_trained_once_at_the_new_pace(run: Any) -> None:
    """A trainer gives its leases back, and gets the same ones again."""
    operator, records = Operator(("async", ""), ("sync:reduce=sum", "")), 240

    def script(session: paceline.Session) -> tuple[int, list[float], int]:
        model = nn.ParameterList([torch.zeros(records)])
        optimizer = session.share(
            model, torch.optim.SGD(model.parameters(), lr=1.0), pace="sync:reduce=sum"
        )

        def step(ids: torch.Tensor) -> None:
            optimizer.zero_grad()
            (-model[0][ids].sum()).backward()
            optimizer.step()

        loops = 0
        while not operator.is_over.is_set():
            loops += 1
            held: list[torch.Tensor] = []
            batches = session.batches(torch.arange(records), 4, task_size=16, lookahead=2)
            for number, batch in enumerate(batches):
                held.append(batch)
                if len(held) > 2:
                    step(held.pop(0))
                if number == 5:
                    operator.begin()
            for batch in held:
                step(batch)
        return loops, model[0].tolist(), session.records

    [(loops, seen, counted)] = run(script, trainers=1)
    assert (seen, counted) == ([float(loops)] * records, loops * records)
    operator.join()
    assert operator.answers == [Done(), Done()]
