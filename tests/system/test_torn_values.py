"""No trainer ever sees a torn value: read where servers keep it, while it changes.

A push adds one to each of a million elements, so a mixture of two versions shows. A server
that changes blocks by halves, milliseconds apart, makes sure that readers come between.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.launch.processes.forked import PRELOADED
from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, ChaosReport, RandomKills, wait_chaos
from paceline.timing import SystemClock
from paceline.transport.shared_memory import is_supported

FOLDER = Path(__file__).parent
SCRIPT = FOLDER / "reading_job.py"
SYNC, SSP, ASYNC = "sync:reduce=sum", "ssp:2", "async"

pytestmark = pytest.mark.skipif(not is_supported(), reason="nothing is lent here")


@pytest.fixture(scope="module")
def slow_forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Processes forked from here change blocks by halves."""
    log = tmp_path_factory.mktemp("slow-forks") / "log"
    paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    preloaded = (*PRELOADED, "slow_writes")
    server = ForkServer(environment, log, SystemClock(), preloaded)
    yield server
    server.close()


def run_reading(
    plan: ChaosPlan, folder: Path, forks: ForkServer
) -> tuple[ChaosReport, Counter[str], list[str]]:
    """The report, how values were read, and what was torn."""
    report = wait_chaos(plan, folder, forks)
    reads: Counter[str] = Counter()
    for file in folder.glob("reads-*"):
        reads.update(json.loads(file.read_text()))
    torn = folder / "torn"
    lines = torn.read_text().splitlines() if torn.exists() else []
    print(f"{report.faults} {report.returns} {dict(reads)} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    return report, reads, lines


def arguments_for(pace: str, *more: str) -> tuple[str, ...]:
    return ("--rounds", *more) if pace == SYNC else more


@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, SSP, ASYNC])
def test_values_are_whole_though_their_writer_dies(
    pace: str, tmp_path: Path, forks: ForkServer
) -> None:
    point = "server.before_commit" if pace == SYNC else "server.before_ack"
    plan = ChaosPlan(
        SCRIPT,
        pace,
        arguments_for(pace, "--batches", "120"),
        f"{point}=kill@25x1",
        cut_every_s=1.0,
        timeout_s=60.0,
        limit_s=600.0,
    )
    report, reads, torn = run_reading(plan, tmp_path, forks)
    assert report.faults == {point: 1}
    assert report.is_exact(), report.verdict
    assert torn == []
    assert reads["in place"] > 0


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("pace", [SYNC, SSP, ASYNC])
def test_values_are_whole_amid_slow_writes_and_dying_writers(
    pace: str, tmp_path: Path, slow_forks: ForkServer
) -> None:
    kills = RandomKills(3, 8, within_s=25.0, kinds=("server",))
    plan = ChaosPlan(
        SCRIPT,
        pace,
        arguments_for(pace, "--batches", "2400", "--sleep-ms", "20"),
        kills=kills,
        cut_every_s=2.0,
        limit_s=900.0,
    )
    report, reads, torn = run_reading(plan, tmp_path, slow_forks)
    assert report.faults["kill server"] == 8
    assert report.is_exact(), report.verdict
    assert torn == []
    assert reads["in place"] > 100
    if pace != SYNC:  # who waits for a round comes when all of it is there
        assert reads["asked"] > 100, "nobody came between two halves"


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_reader_that_ignores_what_is_changing_is_caught(
    tmp_path: Path, slow_forks: ForkServer
) -> None:
    plan = ChaosPlan(SCRIPT, ASYNC, ("--batches", "600", "--mutant"), limit_s=600.0)
    _, reads, torn = run_reading(plan, tmp_path, slow_forks)
    assert torn, "the checker sees nothing"
    assert reads["asked"] == 0
