"""A network with all that people do, begun by two, interrupted, ended by one, taken out."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from paceline.timing import Deadline, SystemClock
from tests.system.conv_job import BATCH, UNSEEN, made, unseen
from tests.system.events import events_of

SCRIPT = Path(__file__).with_name("conv_job.py")
EPOCHS, LIMIT_S = 6, 240.0
CLI = [sys.executable, "-m", "paceline.cli.main"]


def start(job: Path, *options: str) -> "subprocess.Popen[str]":
    own = [f"--epochs={EPOCHS}", f"--predictions={job.parent / 'predictions'}"]
    return subprocess.Popen(
        [*CLI, "run", f"--job-dir={job}", *options, str(SCRIPT), *own],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_second_cut(job: Path, launcher: "subprocess.Popen[str]") -> None:
    """Wait until something trained is in a checkpoint."""
    deadline = Deadline(SystemClock(), LIMIT_S)
    while len(events_of(job, "CutCommitted")) < 2:
        assert launcher.poll() is None, launcher.communicate()[0]
        assert not deadline.is_over(), "nothing is saved"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.system
def test_what_is_exported_predicts_what_the_job_predicted(tmp_path: Path) -> None:
    job = tmp_path / "job"
    first = start(job, "--trainers=2", "--checkpoint-every=10steps")
    wait_second_cut(job, first)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=LIMIT_S)[0]
    assert first.returncode == 75, said

    second = start(job, "--resume", "--trainers=1")
    said = second.communicate(timeout=LIMIT_S)[0]
    assert second.returncode == 0, said

    out = tmp_path / "model.safetensors"
    subprocess.run([*CLI, "checkpoint", "export", str(job), "--out", str(out)], check=True)
    model = made()
    model.load_state_dict(load_file(out), strict=True)
    model.eval()

    listed = json.loads((tmp_path / "predictions" / "predictions.json").read_text())
    files = [load_file(tmp_path / "predictions" / one["name"]) for one in listed["files"]]
    predicted = torch.cat([one["logits"] for one in files])
    images, labels = unseen()
    with torch.no_grad():
        own = torch.cat([model(images[i : i + BATCH]) for i in range(0, UNSEEN, BATCH)])
    assert torch.equal(own, predicted)
    assert (own.argmax(1) == labels).float().mean() > 0.5
    averaged = torch.cat([one["averaged"] for one in files])
    assert averaged.shape == predicted.shape
    assert not torch.equal(averaged, predicted), "the average is a model of its own"
    assert (averaged.argmax(1) == labels).float().mean() > 0.5
