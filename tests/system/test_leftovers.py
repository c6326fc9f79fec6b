"""Two hundred processes are killed under load, and nothing of them is left.

No memory, socket, descriptor or process; and all that is counted is exact. The job is one
whose blocks are lent, whose mailboxes are in use and whose rows are asked for ahead.
"""

import os
import tempfile
from pathlib import Path

import psutil
import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, ChaosReport, RandomKills, wait_chaos
from paceline.transport.shared_memory import is_supported, may_share_memory
from tests.system.leftovers import Watch, holding
from tests.system.ways import EVERY_WAY, Way

SCRIPT = Path(__file__).with_name("lending_job.py")
TRAINERS, SERVERS = 3, 2
# A server lends once and has a mailbox of each trainer, and a trainer sees the other ends.
MEMORY = {"server": 1 + TRAINERS, "trainer": 2 * SERVERS, "coordinator": 0}
MOST_GROWTH = 25  # a job that begins opens as many; what leaks with each death opens more

pytestmark = pytest.mark.skipif(not is_supported(), reason="nothing is lent here")


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jobs of this test have their sockets."""
    folder = tempfile.mkdtemp(prefix="pl")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    return Path(folder)


def own_holding(forks: ForkServer) -> list[tuple[int, int]]:
    """Descriptors and memory of the launcher's process and of the fork server."""
    found = [holding(pid) for pid in (os.getpid(), forks.pid)]
    return [(one.descriptors, len(one.memory)) for one in found if one is not None]


def run_watched(
    plan: ChaosPlan, folder: Path, forks: ForkServer, sockets: Path
) -> ChaosReport:
    """Run a plan, and see that nothing is left of it, nor grows while it runs."""
    before = own_holding(forks)
    with Watch(forks.pid) as watch:
        report = wait_chaos(plan, folder, forks)
    print(f"{report.faults} {report.counters} {report.returns} {report.seconds:.0f} s")  # noqa: T201  (the figures of a soak)
    print(f"memory {dict(watch.most_memory)}, growth {dict(watch.growth)}")  # noqa: T201  (the same)
    assert report.is_exact(), report.verdict
    assert report.verdict["left"] == []
    for kind, most in watch.most_memory.items():
        at_most = 2 * MEMORY[kind] if may_share_memory() else 0
        assert most <= at_most, f"a {kind} has memory of dead ones, or of old connections"
    for role, grown in watch.growth.items():
        assert grown <= MOST_GROWTH, f"{role} opens more and more"
    for now, then in zip(own_holding(forks), before, strict=True):
        assert now <= then, "launcher or fork server has kept something"
    assert psutil.Process(forks.pid).children() == []
    assert list(sockets.iterdir()) == [], "sockets are left"
    return report


@pytest.mark.system
@pytest.mark.timeout(0)
def test_nothing_is_left_of_a_few_dead(
    tmp_path: Path, forks: ForkServer, sockets: Path
) -> None:
    points = "server.before_ack=kill@30x1;trainer.before_tick=kill@9x2"
    arguments = ("--records", "16384", "--epochs", "6")
    plan = ChaosPlan(
        SCRIPT, "async", arguments, points, cut_every_s=1.0, timeout_s=60.0, limit_s=600.0
    )
    report = run_watched(plan, tmp_path, forks, sockets)
    assert report.faults == {"server.before_ack": 1, "trainer.before_tick": 2}
    assert report.verdict["memory"] == MEMORY["trainer"], "nothing was shared"


@pytest.mark.soak
@pytest.mark.timeout(0)
@EVERY_WAY
@pytest.mark.parametrize("pace", ["sync:reduce=sum", "async"])
def test_nothing_is_left_of_two_hundred_dead(
    pace: str,
    way: Way,
    tmp_path: Path,
    forks: ForkServer,
    sockets: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sixth of them in each of six jobs."""
    kills = RandomKills(7, 34, within_s=70.0, kinds=("trainer", "server"))
    plan = ChaosPlan(
        SCRIPT,
        pace,
        ("--epochs", "60", "--sleep-ms", "40"),  # longer than the kills take
        kills=kills,
        trainers=TRAINERS,
        servers=SERVERS,
        cut_every_s=2.0,
        limit_s=1200.0,
        transport=way.choose(monkeypatch),
    )
    report = run_watched(plan, tmp_path, forks, sockets)
    assert sum(n for name, n in report.faults.items() if name.startswith("kill ")) == 34
