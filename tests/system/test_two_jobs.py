"""Two jobs by the command line with one place for their checkpoints."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

SCRIPT = """
import sys, time, torch, paceline
n = int(sys.argv[1])
session = paceline.connect()
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
for (x,) in session.batches((torch.ones(n, 1),), batch_size=8):
    (-model(x)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("came to", int(model.weight.item()))
"""
LIMIT_S = 120


def run(tmp_path: Path, name: str, records: int) -> "subprocess.Popen[str]":
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "paceline.cli.main", "run", "--pace=async"]
    command += [f"--job-dir={name}", "--checkpoints=cuts", "train.py", str(records)]
    return subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


def assert_refused(tmp_path: Path) -> None:
    second = run(tmp_path, "b", 400)
    _, told = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 2, told
    assert "holds the checkpoints of another job" in told
    assert f"--resume --job-dir {tmp_path / 'a'}" in told
    assert not (tmp_path / "b" / "job.json").exists()


def test_the_second_is_refused_while_the_first_runs_and_when_it_has_ended(
    tmp_path: Path,
) -> None:
    first = run(tmp_path, "a", 1600)
    deadline = time.monotonic() + LIMIT_S
    while not list(tmp_path.glob("cuts/claims/*")):
        assert time.monotonic() < deadline, "the first job claims nothing"
        time.sleep(0.05)
    assert_refused(tmp_path)
    _, told = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 0, told
    assert "came to 1600" in (tmp_path / "a/logs/trainer-0.log").read_text()
    assert_refused(tmp_path)
