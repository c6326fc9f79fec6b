"""A job whose cuts lie elsewhere: taken by steps, resumed, and exported."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from paceline.config import JobConfig, Sync
from paceline.launch.embedded import EmbeddedJob
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.export_plan import plan_export
from paceline.store.cuts.manifest import list_cuts, newest_good_cut
from paceline.store.export import export_cut
from paceline.store.tensors import read_tensors


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries that play the bucket
@pytest.mark.parametrize("place", ["memory", "bucket"])
def test_cuts_by_steps_lie_where_the_job_says_and_hold_its_model(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"memory://{tmp_path.name}/cuts"
    if place == "bucket":
        url = request.getfixturevalue("bucket") + "/job"
    config = JobConfig(
        run="r",
        servers=2,
        pace=Sync(),
        cut_every_s=0.0,
        cut_every_steps=4,
        keep_cuts=100,
        checkpoints=url,
    )
    job = EmbeddedJob(config, tmp_path / "job")
    session = job.session("trainer-0")
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = torch.arange(120, dtype=torch.float32).view(40, 3) / 100
    for batch in session.batches(data, batch_size=2, task_size=10):
        model(batch).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    job.close()
    assert not (tmp_path / "job" / "checkpoints").exists()
    store = BlobStore(url)
    good = newest_good_cut(store)
    assert good.manifest is not None
    assert (good.manifest.steps, good.manifest.records) == (20, 40)
    least = 4 if place == "memory" else 2  # a slow place has the first and the last
    assert len(list_cuts(store)) >= least
    plan = plan_export(good.manifest.plans)
    to = BlobStore(str(tmp_path))
    made = export_cut(store, good.manifest, plan, to, "m.safetensors")
    state, _ = read_tensors(to, made.dense)
    for name, parameter in model.named_parameters():
        assert torch.equal(state[name], parameter.detach())


def test_a_folder_that_comes_in_the_place_of_the_jobs_gets_no_checkpoints(
    tmp_path: Path,
) -> None:
    config = JobConfig(run="r", pace=Sync(), cut_every_s=0.0, cut_every_steps=1000)
    job = EmbeddedJob(config, folder := tmp_path / "job")
    session = job.session("trainer-0")
    model = nn.Linear(1, 1)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))
    data = torch.ones(10, 1)
    for number, batch in enumerate(session.batches(data, batch_size=1, task_size=1)):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 5:
            shutil.rmtree(folder)
            folder.mkdir()
            assert job.wait_saved(2.0) is None
            assert list(folder.iterdir()) == []
            (folder / "checkpoints").mkdir()
    job.close()
    assert list_cuts(BlobStore(str(folder / "checkpoints")))
