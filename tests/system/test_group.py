"""A trainer of several processes is one trainer: in what it learns, in life and death."""

import contextlib
import itertools
import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from torch import Tensor, nn

from paceline.config import Async, Sync
from paceline.data.order import records_at
from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.summary import Ending
from tests.system import group_calls, group_job, group_struck_job
from tests.system.events import events_of
from tests.system.group_job import BATCH, IDS, RECORDS
from tests.system.group_runs import assert_equal, committed_rounds, models_of, run

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SCRIPT = Path(group_job.__file__)
STRUCK = Path(group_struck_job.__file__)
CLOCK = SystemClock()
_SYNC = Sync()


def train_alone(rounds: Sequence[Tensor], accumulate: int) -> dict[str, Tensor]:
    """One process on the joined batches of the rounds."""
    model = group_job.Model(nn.Embedding(IDS, 4, _weight=torch.zeros(IDS, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    features, ids, target = group_job.make_data()
    for chosen in rounds:
        loss = nn.functional.mse_loss(model(features[chosen], ids[chosen]), target[chosen])
        (loss / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert isinstance(model.rows, nn.Embedding)
    return {"rows": model.rows.weight.detach(), **model.layers.state_dict()}


@pytest.mark.parametrize("rows", ["table", "sparse", "dense"])
def test_two_trainers_of_two_equal_one_process_on_the_joined_batches(
    rows: str, tmp_path: Path, forks: ForkServer
) -> None:
    # Tasks of three batches: every other step has a rank without one.
    job, task_size = JobDir(tmp_path / "job"), 3 * BATCH
    result = run(forks, job, SCRIPT, (tmp_path, rows, 1, task_size), trainers=2)
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == RECORDS
    assert "loss" in result.summary.metrics
    found = models_of(tmp_path)
    assert list(found) == ["trainer-0.0", "trainer-0.1", "trainer-1.0", "trainer-1.1"]
    rounds = committed_rounds(job, RECORDS, BATCH, task_size)
    assert max(len(records) for records in rounds) == 4 * BATCH, "all four at once"
    alone = train_alone(rounds, 1)
    for model in found.values():
        assert_equal(model, alone)
        assert model["records"] == RECORDS
    steps = [int(model["steps"]) for model in found.values()]
    assert sum(steps) == RECORDS // BATCH
    assert sum("once" in model for model in found.values()) == 1


def test_a_trainer_of_four_equals_four_trainers(tmp_path: Path, forks: ForkServer) -> None:
    """A round of four trainers with a batch each, and a step of one with four, are one."""
    job, task_size = JobDir(tmp_path / "job"), 4 * BATCH
    run(forks, job, SCRIPT, (tmp_path, "dense", 1, task_size), size=4)
    rounds = committed_rounds(job, RECORDS, BATCH, task_size)
    four = [
        torch.from_numpy(
            records_at(np.arange(start, start + 4 * BATCH), RECORDS, 11, 0, True)
        )
        for start in range(0, RECORDS, 4 * BATCH)
    ]
    assert [sorted(r.tolist()) for r in rounds] == [sorted(r.tolist()) for r in four]
    for model in models_of(tmp_path).values():
        assert_equal(model, train_alone(four, 1))


def test_a_trainer_of_two_that_waits_for_nobody_equals_the_plain_loop_on_its_steps(
    tmp_path: Path, forks: ForkServer
) -> None:
    job, task_size = JobDir(tmp_path / "job"), 3 * BATCH
    run(forks, job, SCRIPT, (tmp_path, "table", 1, task_size), pace=Async())
    cuts = [0]
    while cuts[-1] < RECORDS:  # two batches of a task, then its last one
        has_two = cuts[-1] % task_size == 0
        cuts.append(min(RECORDS, cuts[-1] + (2 if has_two else 1) * BATCH))
    steps = [
        torch.from_numpy(records_at(np.arange(*cut), RECORDS, 11, 0, True))
        for cut in itertools.pairwise(cuts)
    ]
    for model in models_of(tmp_path).values():
        assert_equal(model, train_alone(steps, 1))


def test_processes_that_count_batches_to_a_step_may_have_had_fewer(
    tmp_path: Path, forks: ForkServer
) -> None:
    job, task_size = JobDir(tmp_path / "job"), 3 * BATCH
    result = run(forks, job, SCRIPT, (tmp_path, "table", 2, task_size))
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == RECORDS


@pytest.mark.parametrize(
    ("number", "victim"),
    [
        (signal.SIGKILL, "trainer-0"),
        (signal.SIGKILL, "trainer-0.1"),
        (signal.SIGKILL, "trainer-1.2"),
        (signal.SIGSTOP, "trainer-1.2"),
        (signal.SIGTERM, "trainer-0"),
        (signal.SIGTERM, "trainer-1.1"),
        (signal.SIGKILL, "server-1"),
    ],
)
def test_a_process_that_is_lost_costs_no_record(
    number: signal.Signals, victim: str, tmp_path: Path, forks: ForkServer
) -> None:
    """The others wait in mid-loop until it is back, so that both end the loop."""
    job, verdict, go = JobDir(tmp_path / "job"), tmp_path / "verdict.json", tmp_path / "go"
    before = set(psutil.Process(forks.pid).children(recursive=True))
    is_server = victim.startswith("server")
    hit: list[psutil.Process] = []

    def strike() -> None:
        while not over.wait(0.05):
            granted = events_of(job.path, "LeaseGranted")
            # All are there: whoever is still about to join would not know a signal.
            if (
                not hit
                and len(granted) >= 4
                and len({one["trainer"] for one in granted}) > 1
            ):
                hit.extend(_hit(forks, victim, number))
            if hit and (is_server or len(events_of(job.path, "TrainerJoined")) > 2):
                go.touch()

    over = threading.Event()
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        result = run(
            forks,
            job,
            STRUCK,
            (verdict, go),
            size=3,
            trainers=2,
            pace=Sync(reduce="sum"),
            # Who stands still is missed after this time; all others are seen to end.
            timeout_s=5.0 if number is signal.SIGSTOP else 60.0,
        )
    finally:
        over.set()
        thread.join()
    assert hit, "nobody was hit"
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == group_struck_job.RECORDS
    assert json.loads(verdict.read_text())["exact"]
    restarts = result.summary.restarts
    assert restarts.server >= 1 if is_server else restarts.trainer == 1
    left_in_order = len(events_of(job.path, "TrainerLeft")) - 2
    assert left_in_order == (number is signal.SIGTERM)
    # One whose parent has died is reaped by another, a moment later.
    left = set(psutil.Process(forks.pid).children(recursive=True)) - before
    _, alive = psutil.wait_procs({*left, *hit}, timeout=20)
    assert not alive, "processes are left"


def _hit(forks: ForkServer, victim: str, number: signal.Signals) -> list[psutil.Process]:
    """Send a signal to the process of this name; it, or nobody: it is not there yet."""
    for child in psutil.Process(forks.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # others come and go
            if child.name() == victim:
                child.send_signal(number)
                return [child]
    return []


def test_every_call_of_a_session_works_in_every_process(
    tmp_path: Path, forks: ForkServer
) -> None:
    job = JobDir(tmp_path / "job")
    result = run(forks, job, Path(group_calls.__file__), (tmp_path,))
    assert result.verdict.ending is Ending.STOPPED, result.verdict
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1)]
    assert found[0] == found[1]
    records, batch = group_calls.RECORDS, group_calls.BATCH
    assert found[0]["records"] == records
    assert found[0]["trainers"] == 1
    assert found[0]["rate"] == pytest.approx(1e-6 * 0.1**4)
    assert found[0]["mean"] == (records - 1) / 2
    assert found[0]["before the break"] == 2
    # The batch before the bad one counts, three batches of its task are given up.
    assert found[0]["after the flaky"] == records + 4 * batch + records - 3 * batch
    assert result.summary.metrics == {"count 0": 11.0, "count 1": 11.0}
    listing = json.loads((tmp_path / "predictions" / "predictions.json").read_text())
    assert listing["records"] == records


def test_processes_that_make_other_calls_are_told_so(
    tmp_path: Path, forks: ForkServer
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, torch, paceline\n"
        "session = paceline.connect()\n"
        "model = torch.nn.Linear(1, 1)\n"
        "session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))\n"
        "if os.environ['PACELINE_RANK'] == '0':\n"
        "    session.embedding('rows', 2)\n"
        "for batch in session.batches(torch.ones(8, 1), 1):\n"
        "    pass\n"
    )
    job = JobDir(tmp_path / "job")
    result = run(forks, job, script, ())
    assert result.verdict.ending is Ending.FAILED
    assert "every rank of a trainer makes the same calls" in result.verdict.reason
    assert "rank 0 of trainer-0 is at session.share" in result.verdict.reason
