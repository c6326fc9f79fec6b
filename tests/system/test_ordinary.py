"""Ordinary scripts: embedded, their losses are those of the same loop without paceline.

To the bit, since a server steps by the kernels that the plain loop steps by. One of them
also runs through `paceline run`'s own launcher.
"""

import json
import os
import runpy
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import paceline
from paceline.config import JobConfig
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job.addresses import Transport
from paceline.launch.job.commands import UserScript
from paceline.launch.job.folder import JobDir
from paceline.launch.local import LocalRun, Reach, fresh_run_id, wait_local_run
from paceline.launch.processes.forkserver import ForkServer
from paceline.timing import SystemClock
from paceline.watch.progress import open_show
from tests.system.plain import Curves, PlainSession
from tests.system.ways import EVERY_WAY, Way

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]

FOLDER = Path(__file__).parents[2] / "examples" / "ordinary"
SCRIPTS = (
    "resnet.py",
    "transformer.py",
    "gan.py",
    "recommender.py",
    "accumulate.py",
    "notebook.ipynb",
)
SPARSE = {"recommender.py"}  # torch's fused kernels take no sparse gradients
FALLS = {"gan.py": "off"}  # what must fall; the loss by default
AT_LAST = 8  # logged values that an end is judged by
WARNED_OF = "ignore:Sparse invariant checks:UserWarning"  # torch, of its own sparse Adagrad


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """torch cuts its kernels by the number of threads; more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run_script(script: str) -> None:
    """As ``python script`` does; of a notebook all cells of code, from first to last."""
    path = FOLDER / script
    if path.suffix == ".py":
        runpy.run_path(str(path), run_name="__main__")
        return
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(
                compile("".join(cell["source"]), f"{script}, cell {number}", "exec"), names
            )


def run_plain(script: str, monkeypatch: pytest.MonkeyPatch) -> Curves:
    session = PlainSession(fused=script not in SPARSE)
    monkeypatch.setattr(paceline, "connect", lambda: session)
    run_script(script)
    return session.curves


def run_embedded(
    script: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> tuple[Curves, dict[str, object]]:
    """What the script logged, and the job's summary."""
    job = EmbeddedJob(JobConfig(run=fresh_run_id()), folder)
    try:
        session, curves = job.session("trainer-0"), defaultdict(list)
        log = session.log

        def note(**numbers: float) -> None:
            for name, number in numbers.items():
                curves[name].append(number)
            log(**numbers)

        monkeypatch.setattr(session, "log", note)
        monkeypatch.setattr(paceline, "connect", lambda: session)
        run_script(script)
    finally:
        summary = job.close()
    return curves, summary


@pytest.mark.filterwarnings(WARNED_OF)
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_ordinary_script_learns_what_the_plain_loop_learns(
    script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = run_plain(script, monkeypatch)
    found, summary = run_embedded(script, monkeypatch, tmp_path / "job")

    assert found.keys() == expected.keys()
    for name, curve in expected.items():
        assert found[name] == curve, name
    curve = expected[FALLS.get(script, "loss")]
    assert sum(curve[-AT_LAST:]) / AT_LAST < 0.8 * curve[0], "nothing was learnt"
    assert summary["status"] == "finished"


def check_in_processes(
    script: str, transport: Transport, expected: Curves, forks: ForkServer, folder: Path
) -> None:
    """Run a script as a job of processes; what it logs last is what the plain loop does."""
    config = JobConfig(run=fresh_run_id(), timeout_s=120.0)
    arguments = UserScript(str(FOLDER / script), ())
    with (folder / "out").open("w") as out:
        result = wait_local_run(
            LocalRun(config, arguments, JobDir(folder / "job")),
            open_show(out),
            SystemClock(),
            environment={**os.environ, "OMP_NUM_THREADS": "1"},
            forks=forks,
            reach=Reach(transport),
        )
    assert result.verdict.exit_code == 0, (folder / "out").read_text()
    last = {name: curve[-1] for name, curve in expected.items()}
    assert result.summary.metrics == last


@EVERY_WAY
def test_a_script_is_the_same_in_processes(
    way: Way, forks: ForkServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    transport = way.choose(monkeypatch)
    expected = run_plain("accumulate.py", monkeypatch)
    check_in_processes("accumulate.py", transport, expected, forks, tmp_path)


@pytest.mark.soak
@EVERY_WAY
@pytest.mark.filterwarnings(WARNED_OF)
@pytest.mark.parametrize("script", [name for name in SCRIPTS if name.endswith(".py")])
def test_every_script_is_the_same_in_processes(
    script: str,
    way: Way,
    forks: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    transport = way.choose(monkeypatch)
    expected = run_plain(script, monkeypatch)
    check_in_processes(script, transport, expected, forks, tmp_path)
