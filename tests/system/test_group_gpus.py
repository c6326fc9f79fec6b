"""Ranks with a GPU each hand dense numbers from GPU to GPU, and learn what they learned."""

from pathlib import Path

import pytest
import torch

from paceline.launch.job.folder import JobDir
from paceline.launch.processes.forkserver import ForkServer
from paceline.watch.summary import Ending
from tests.system import group_gpus_job
from tests.system.group_gpus_job import BATCH, RECORDS
from tests.system.group_runs import assert_equal, models_of, run

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SCRIPT = Path(group_gpus_job.__file__)
TASK_SIZE = 3 * BATCH  # every other step has a rank without a batch


def train(forks: ForkServer, folder: Path, gpus: str) -> JobDir:
    folder.mkdir()
    job = JobDir(folder / "job")
    result = run(forks, job, SCRIPT, (folder, gpus, TASK_SIZE))
    assert result.verdict.ending is Ending.TRAINED, result.verdict
    assert result.summary.records == RECORDS
    assert list(models_of(folder)) == ["trainer-0.0", "trainer-0.1"]
    return job


def log_of(job: JobDir) -> str:
    return job.log("trainer-0").read_text()


def test_sums_and_values_between_gpus_are_those_by_way_of_the_host(
    tmp_path: Path, forks: ForkServer
) -> None:
    plain = train(forks, tmp_path / "plain", "none")
    own = train(forks, tmp_path / "own", "own")
    assert (tmp_path / "own" / "connected.0").exists(), "it was another group that carried"
    assert (tmp_path / "own" / "connected.1").exists()
    expected = models_of(tmp_path / "plain")["trainer-0.0"]
    for model in models_of(tmp_path / "own").values():
        for name, value in model.items():
            assert torch.equal(value, expected[name]), name
    assert "travel between ranks" not in log_of(plain) + log_of(own)


def test_processes_that_share_a_gpu_are_told_that_their_numbers_go_by_way_of_the_host(
    tmp_path: Path, forks: ForkServer
) -> None:
    job = train(forks, tmp_path / "shared", "shared")
    assert not (tmp_path / "shared" / "connected.0").exists()
    said = "part 0: dense numbers travel between ranks by way of host memory (Gloo): "
    assert log_of(job).count(f"{said}ranks 0 and 1 share GPU GPU-0") == 1


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="NCCL needs two GPUs that torch can use here"
)
def test_two_gpus_connected_by_nccl_learn_what_the_cpu_learns(
    tmp_path: Path, forks: ForkServer
) -> None:
    train(forks, tmp_path / "plain", "none")
    train(forks, tmp_path / "cuda", "cuda")
    expected = models_of(tmp_path / "plain")["trainer-0.0"]
    for model in models_of(tmp_path / "cuda").values():
        assert_equal(model, expected)
