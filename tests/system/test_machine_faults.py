"""Sixty faults between machines, and after them every record has counted exactly once."""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.testing.machines import Machines
from tests.system.events import events_of
from tests.system.hosts import HostedJob, within
from tests.system.misfortunes import ORPHAN_S, Kind, Misfortunes, plan

pytestmark = [
    pytest.mark.soak,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("needs_machines"),
]
MACHINES = 48  # one, then one for each host that comes, and no host comes back
TIMEOUT_S = 3.0
RECORDS = 30_000
COUNTING = ("--records", f"{RECORDS}", "--ids", "500", "--epochs", "1", "--sleep-ms", "120")
OPTIONS = (
    *("--trainers", "4", "--servers", "2", "--await-hosts", "3"),
    *("--timeout", f"{TIMEOUT_S:g}s", "--checkpoint-every", "2s"),
)
TIMES: dict[Kind, int] = {
    "trainer killed": 10,
    "server killed": 7,
    "coordinator killed": 8,
    "agent killed": 4,
    "host lost": 7,
    "host hung": 6,
    "host unheard": 5,
    "launcher unheard": 4,
    "way lost for a moment": 3,
    "server out of reach": 6,
}
GOING_S = 10.0  # from the end, or what an orphan waits for, to where nothing is left


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    sockets = tempfile.mkdtemp(prefix="pl")  # hosts that are lost leave theirs
    monkeypatch.setenv("TMPDIR", sockets)
    with Machines(MACHINES) as made:
        yield made
    shutil.rmtree(sockets)


def lost(job: HostedJob) -> Counter[str]:
    """{how members of the job were lost: how often}."""
    kinds = ("TrainerLost", "ServerLost")
    return Counter(
        str(event["kind"]) for kind in kinds for event in events_of(job.job.path, kind)
    )


@pytest.mark.parametrize("pace", ["async", "sync:reduce=sum", "ssp:2"])
def test_sixty_faults_between_machines_cost_no_record(
    pace: str, tmp_path: Path, machines: Machines
) -> None:
    seed = int(os.environ.get("PACELINE_FAULTS_SEED", "1"))
    faults = plan(seed, TIMES, RECORDS)
    assert len(faults) == 60
    job = HostedJob(tmp_path, *OPTIONS, "--pace", pace, script=COUNTING, machines=machines)
    misfortunes = Misfortunes(job, seed, TIMEOUT_S)
    try:
        misfortunes.do_all(faults)
        last = misfortunes.cut_off_one()
        cut_s = time.monotonic()
        misfortunes.undo_all()
        verdict = job.end()
        over_s = time.monotonic()

        assert verdict["exact"], verdict
        summary = job.job.read_summary()
        assert summary is not None
        assert (summary["status"], summary["records"]) == ("finished", RECORDS)
        assert misfortunes.done == TIMES
        losses = lost(job)
        misfortunes.note(f"lost: {losses}")
        assert losses["unreached"], "no trainer was given up for a server that it lacks"
        reached = [machine for machine in machines if machine is not machines[last]]
        within(
            over_s + GOING_S - time.monotonic(),
            "nothing is left where hosts can be reached",
            lambda: not any(machine.processes() for machine in reached),
        )
        within(
            cut_s + ORPHAN_S + GOING_S - time.monotonic(),
            "nothing is left on the host that was cut off",
            lambda: not machines[last].processes(),
        )
    finally:
        print(f"{pace}: {misfortunes.told()}")  # noqa: T201  (what a soak has done)
        job.close()
