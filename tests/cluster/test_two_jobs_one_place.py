"""Two jobs that are given one place for their cuts: the second is refused, in any order.

Each record adds one to the model: one with anything of another job is wrong by count.
"""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from paceline.config import Async, JobConfig
from paceline.errors import PacelineError, StoreError, UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.claims import FOLDER as CLAIMS
from paceline.store.cuts.manifest import (
    cut_folder,
    list_cuts,
    newest_good_cut,
    read_manifest,
    write_manifest,
)
from paceline.watch.summary import Ending, Verdict

BATCH = 4


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "cuts")
    return f"memory://two-jobs-{uuid.uuid4()}"


def begin(folder: Path, place: str, *, is_resumed: bool = False) -> EmbeddedJob:
    config = JobConfig(
        run=uuid.uuid4().hex,
        pace=Async(),
        cut_every_s=0.0,
        checkpoints=place,
        timeout_s=60.0,
    )
    return EmbeddedJob(config, folder, is_resumed=is_resumed)


def train(job: EmbeddedJob, records: int, dies_after: int | None = None) -> float:
    """What the model comes to; after so many batches the process is as good as dead."""
    session = job.session("trainer-0")
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = session.share(model, torch.optim.SGD(model.parameters(), lr=1.0))
    batches = session.batches(torch.ones(records, 1), batch_size=BATCH, task_size=BATCH)
    for number, x in enumerate(batches):
        if number == dies_after:
            session.save()
            job.close(Verdict(Ending.FAILED, "the power went"))
            session.membership.driver.close()
            batches.close()
            return float("nan")
        (-model(x)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    found = float(model.weight.item())
    job.close()
    return found


def contents(place: str) -> dict[str, bytes]:
    """Every file of a place, but the locks of launchers."""
    store = BlobStore(place)
    fs, root = store._fs, store._root
    found = {path: fs.cat_file(path) for path in fs.find(root)}
    return {path: data for path, data in found.items() if not path.endswith(".lock")}


def events_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == kind]


def assert_refused(folder: Path, place: str, first: Path) -> None:
    """A new job in the place is told whose it is, and may have another at once."""
    before = contents(place)
    with pytest.raises(UsageError) as refused:
        begin(folder, place)
    assert "another job" in str(refused.value)
    assert str(first) in str(refused.value)
    assert "--checkpoints" in str(refused.value)
    assert contents(place) == before
    job = begin(folder, f"{place}-other")
    assert train(job, 40) == 40


def test_a_new_job_is_refused_a_place_where_one_has_ended(
    place: str, tmp_path: Path
) -> None:
    assert train(begin(tmp_path / "a", place), 80) == 80
    assert_refused(tmp_path / "b", place, tmp_path / "a")


def test_a_new_job_is_refused_a_place_that_another_one_uses(
    place: str, tmp_path: Path
) -> None:
    job = begin(tmp_path / "a", place)
    assert_refused(tmp_path / "b", place, tmp_path / "a")
    assert train(job, 80) == 80


def test_a_job_that_was_killed_goes_on_after_another_was_refused(
    place: str, tmp_path: Path
) -> None:
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    assert_refused(tmp_path / "b", place, tmp_path / "a")
    assert train(begin(tmp_path / "a", place, is_resumed=True), 80) == 80
    (resumed,) = events_of(tmp_path / "a", "Resumed")
    assert resumed["foreign"] == []


def test_a_copied_folder_is_refused_while_the_first_runs_in_a_local_place(
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "cuts")
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    copy = Path(shutil.copytree(tmp_path / "a", tmp_path / "copy"))
    job = begin(tmp_path / "a", place, is_resumed=True)
    before = {path: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    with pytest.raises(UsageError, match="another copy of its folder"):
        begin(copy, place, is_resumed=True)
    assert {p: p.read_bytes() for p in copy.iterdir() if p.is_file()} == before
    assert train(job, 80) == 80
    assert train(begin(copy, place, is_resumed=True), 80) == 80


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_copied_folder_takes_over_and_the_first_commits_nothing_any_more(
    place: str, tmp_path: Path
) -> None:
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    copy = Path(shutil.copytree(tmp_path / "a", tmp_path / "copy"))
    first = begin(tmp_path / "a", place, is_resumed=True)
    second = begin(copy, place, is_resumed=True)
    before = contents(place)
    with pytest.raises(PacelineError, match=f"run 3 of job .*{copy}.*one folder only"):
        train(first, 80)
    first.close(Verdict(Ending.FAILED, "taken over"))
    assert not [p for p in before if contents(place).get(p) != before[p]]
    assert len(list_cuts(BlobStore(place))) == 2, "of the run before, whatever it began"
    assert train(second, 80) == 80


@pytest.mark.filterwarnings("ignore")  # of the libraries that play the bucket
@pytest.mark.slow
def test_a_bucket_is_one_jobs_too(bucket: str, tmp_path: Path) -> None:
    place = f"{bucket}/job"
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    with pytest.raises(UsageError, match="another job"):
        begin(tmp_path / "b", place)
    assert train(begin(tmp_path / "a", place, is_resumed=True), 80) == 80


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_bucket_that_is_not_there_is_told_at_once(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        begin(tmp_path / "a", f"{bucket}-that-nobody-made/job")
    assert train(begin(tmp_path / "a", f"{bucket}/job"), 40) == 40


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="Not a directory"):
        begin(tmp_path / "a", str(tmp_path / "file" / "cuts"))
    assert train(begin(tmp_path / "a", str(tmp_path / "cuts")), 40) == 40


def forget_claims(place: str) -> None:
    """As versions left it that did not claim."""
    BlobStore(place).remove_folder(CLAIMS)


def leave_foreign_cut(place: str, cut: int, timeline: int) -> str:
    """What a job of the version before has left here, newer than all; its folder."""
    store = BlobStore(place)
    last = list_cuts(store)[-1]
    manifest, folder = read_manifest(store, last.folder), cut_folder(cut, timeline)
    for entry in manifest.entries():
        store.write(f"{folder}/{entry.name}", [store.read(f"{last.folder}/{entry.name}")])
    changes = {"cut": cut, "timeline": timeline, "run": "before", "job": ""}
    write_manifest(store, msgspec.structs.replace(manifest, **changes))
    return folder


def test_a_new_job_is_refused_cuts_that_nobody_has_claimed(
    place: str, tmp_path: Path
) -> None:
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    forget_claims(place)
    folder, before = leave_foreign_cut(place, 9, 4), contents(place)
    with pytest.raises(UsageError, match=f"{folder} of run before.*empty place"):
        begin(tmp_path / "b", place)
    assert contents(place) == before


def test_a_job_goes_on_from_its_own_cut_and_leaves_newer_ones_of_others_alone(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    own = newest_good_cut(BlobStore(place)).manifest
    assert own is not None
    forget_claims(place)
    folder = leave_foreign_cut(place, 9, 4)
    before = {path: data for path, data in contents(place).items() if folder in path}
    assert train(begin(tmp_path / "a", place, is_resumed=True), 80) == 80
    (resumed,) = events_of(tmp_path / "a", "Resumed")
    assert resumed["cut"] == own.cut
    assert resumed["timeline"] == 5, "behind all that lies there"
    (foreign,) = resumed["foreign"]
    assert f"{folder}: it is of run before" in foreign
    assert caplog.text.count("neither loaded nor removed") == 1
    after = {path: data for path, data in contents(place).items() if folder in path}
    assert after == before


def test_a_job_does_not_begin_anew_beside_the_cuts_of_others(
    place: str, tmp_path: Path
) -> None:
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    folder = leave_foreign_cut(place, 9, 4)
    store = BlobStore(place)
    for cut in list_cuts(store)[:-1]:
        store.remove_folder(cut.folder)
    with pytest.raises(UsageError, match=f"no checkpoint of job .*{folder} of run before"):
        begin(tmp_path / "a", place, is_resumed=True)


def test_a_job_of_the_version_before_gets_an_id_that_it_keeps(tmp_path: Path) -> None:
    place = str(tmp_path / "cuts")
    train(begin(tmp_path / "a", place), 80, dies_after=7)
    path = tmp_path / "a" / "job.json"
    fields = json.loads(path.read_text())
    first = fields.pop("job")
    assert first == fields["run"]
    path.write_text(json.dumps(fields))
    forget_claims(place)
    store = BlobStore(place)
    for cut in list_cuts(store):
        manifest = msgspec.structs.replace(read_manifest(store, cut.folder), job="")
        store.remove(f"{cut.folder}/manifest.json")
        write_manifest(store, manifest)
    train(begin(tmp_path / "a", place, is_resumed=True), 80, dies_after=3)
    fields = json.loads(path.read_text())
    assert fields["job"] == first
    assert fields["run"] != first
    assert train(begin(tmp_path / "a", place, is_resumed=True), 80) == 80
