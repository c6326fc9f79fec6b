"""Whichever way processes talk: the same equality, and the same exactness under kills."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from paceline.config import JobConfig, Sync
from paceline.failpoints import parse
from paceline.launch.job.addresses import Transport
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, wait_chaos
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.cluster.test_lockstep import (
    BATCH,
    EPOCHS,
    TASK,
    TRAINERS,
    committed_rounds,
    make_data,
    make_model,
    train_alone,
)
from tests.system.ways import EACH_SOCKET, EVERY_WAY, Way

FOLDER = Path(__file__).parent
COUNTING = Path(__file__).parents[2] / "examples" / "counting" / "train.py"
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {  # as those of `test_lockstep`
    "sgd": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.01, "momentum": 0.9}),
    "adam": ("Adam", {"lr": 1e-2}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
}
SYNC = "sync:reduce=sum"
# What loses nothing: counts of up to 256 travel exactly in bf16.
SETTINGS = (
    SYNC,
    f"{SYNC},codec=bf16",
    "ssp:2",
    "async",
    "async:push=4,pull=8",
    "async:merge=4",
    "async:codec=bf16",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


def check_lockstep(
    name: str, dtype: torch.dtype, transport: Transport, forks: ForkServer, folder: Path
) -> None:
    """Three trainers in rounds equal one process on their joined batches."""
    kind, hyper = OPTIMIZERS[name]
    data = make_data(dtype)
    columns = {"features": data[0], "target": data[1]}
    save_file(columns, folder / "data.safetensors")
    save_file(make_model(dtype).state_dict(), folder / "model.safetensors")
    sizes = {"batch": BATCH, "task": TASK, "epochs": EPOCHS}
    arguments = [str(folder), "--kind", kind]
    for option, value in (*hyper.items(), *sizes.items()):
        arguments += [f"--{option}", str(value)]
    config = JobConfig(
        run=fresh_run_id(), trainers=TRAINERS, servers=2, pace=Sync(), timeout_s=120.0
    )
    script = UserScript(str(FOLDER / "lockstep_job.py"), tuple(arguments))
    with (folder / "out").open("w") as out:
        result = wait_local_run(
            LocalRun(config, script, JobDir(folder / "job")),
            open_show(out),
            SystemClock(),
            environment={**os.environ, "OMP_NUM_THREADS": "1"},
            forks=forks,
            reach=Reach(transport),
        )
    assert result.verdict.exit_code == 0, (folder / "out").read_text()
    rounds = committed_rounds(folder / "job" / "events.jsonl")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = train_alone(
            rounds, data, lambda p: getattr(torch.optim, kind)(p, **hyper)
        ).state_dict()
    finally:
        torch.set_num_threads(before)
    together = load_file(folder / "result.safetensors")
    for parameter, values in alone.items():
        if dtype is torch.float64:
            torch.testing.assert_close(together[parameter], values, rtol=0, atol=1e-6)
        else:
            distance = (together[parameter] - values).norm() / values.norm()
            assert distance <= 1e-6, f"{parameter}: {distance:.2e}"


def check_counting(
    pace: str, points: str, transport: Transport, forks: ForkServer, folder: Path
) -> None:
    """All that was armed goes off, and the counts are exact."""
    plan = ChaosPlan(
        COUNTING,
        pace,
        ("--records", "3200", "--ids", "300", "--epochs", "1", "--task-size", "160"),
        points,
        cut_every_s=1.0,
        timeout_s=60.0,
        limit_s=900.0,
        transport=transport,
    )
    report = wait_chaos(plan, folder, forks)
    print(f"{pace} {transport}: {report.faults} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    assert report.is_exact(), report.verdict
    for point, rule in parse(points).items():
        assert report.faults.get(point) == rule.budget, f"{point}: not injected"
    assert report.returns, "no server was lost"


def kills_for(pace: str, times: int) -> str:
    """Servers and trainers die half way through a push."""
    server = "server.after_prepare" if pace.startswith("sync") else "server.before_ack"
    return f"{server}=kill@25x1;trainer.between_acks=kill@9x{times}"


@pytest.mark.system
@EVERY_WAY
def test_lockstep_equals_one_process(
    way: Way, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_lockstep("adam", torch.float64, way.choose(monkeypatch), forks, tmp_path)


@pytest.mark.system
@EACH_SOCKET
def test_counts_are_exact_through_sockets_alone_though_somebody_dies(
    way: Way, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = way.choose(monkeypatch)
    check_counting("async", kills_for("async", 1), transport, forks, tmp_path)


@pytest.mark.soak
@EVERY_WAY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_in_lockstep_equals_one_process(
    name: str,
    dtype: torch.dtype,
    way: Way,
    tmp_path: Path,
    forks: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_lockstep(name, dtype, way.choose(monkeypatch), forks, tmp_path)


@pytest.mark.soak
@EVERY_WAY
@pytest.mark.parametrize("pace", SETTINGS)
def test_counts_are_exact_with_every_setting_though_many_die(
    pace: str,
    way: Way,
    tmp_path: Path,
    forks: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = way.choose(monkeypatch)
    check_counting(pace, kills_for(pace, 3), transport, forks, tmp_path)
