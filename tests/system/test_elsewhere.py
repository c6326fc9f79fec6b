"""The launcher's machine is lost with its job folder; its checkpoints are enough."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from paceline.testing.machines import Machines
from tests.system.hosts import COUNTING, LIMIT_S, PACELINE, HostedJob, within
from tests.system.test_resume import kill_everything, start, wait_leases

pytestmark = [pytest.mark.system, pytest.mark.timeout(0)]
RECORDS, EPOCHS = 1600, 2
LONG = ("--records", "9600", "--ids", "200", "--epochs", "1", "--sleep-ms", "40")
OPTIONS = ("--trainers=4", "--servers=2", "--timeout=3s", "--checkpoint-every=1s")


def test_a_job_whose_folder_is_gone_counts_every_record_once(tmp_path: Path) -> None:
    job, cuts, out = tmp_path / "job", tmp_path / "cuts", tmp_path / "verdict.json"
    arguments = ["--records", str(RECORDS), "--ids", "50", "--epochs", str(EPOCHS)]
    arguments += ["--sleep-ms", "20", "--out", str(out)]
    options = {"pace": "async", "checkpoint_every": "200ms", "checkpoints": str(cuts)}
    launcher = start(job, COUNTING, arguments, (2, 2), **options)
    within(LIMIT_S, "a checkpoint", lambda: list(cuts.glob("cut-*/manifest.json")))
    assert wait_leases(job, launcher, 3), "the job was over too early"
    kill_everything(launcher)
    shutil.rmtree(job)

    command = [*PACELINE, "run", "--json", "--resume", "--checkpoints", str(cuts)]
    words = [*command, str(COUNTING), *arguments]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)

    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert Path(summary["job_dir"]).parent == tmp_path / "runs"
    assert (summary["records"], summary["epochs"]) == (RECORDS * EPOCHS, EPOCHS)
    assert json.loads(out.read_text())["exact"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.soak
@pytest.mark.usefixtures("needs_machines")
def test_it_goes_on_on_another_machine_when_the_launchers_is_gone_for_good(
    tmp_path: Path, stack: ExitStack
) -> None:
    machines = stack.enter_context(Machines(4))
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first = HostedJob(
        folders[0], *OPTIONS, "--await-hosts=2", script=LONG, machines=[*machines]
    )
    stack.callback(first.close)
    orphan = first.host("--orphan-after", "5s")
    cuts = folders[0] / "cuts"
    within(90.0, "a checkpoint", lambda: list(cuts.glob("cut-*/manifest.json")))
    within(90.0, "records count", lambda: first.records() > 400)

    machines[0].kill()
    shutil.rmtree(first.job.path)

    options = ["--resume", "--checkpoints", str(cuts), "--await-hosts", "2"]
    second = HostedJob(folders[1], *options, script=LONG, machines=[*machines][2:])
    stack.callback(second.close)
    second.host()
    verdict = second.end()

    assert verdict["exact"]
    assert orphan.wait(30.0) == 1, "it has heard nothing for too long"
    within(10.0, "nothing is left of it", lambda: not machines[1].processes())
