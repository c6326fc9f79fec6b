"""What a coordinator commits and removes lies in a place that is its own."""

from pathlib import Path

import pytest

from paceline.config import JobConfig
from paceline.coordinator.durable.durable import CutRecord, Durable
from paceline.coordinator.durable.outcomes import CutCommitted
from paceline.coordinator.durable.queue import Queue, encode_queue
from paceline.coordinator.ledgers.cuts import ManifestOrder
from paceline.coordinator.state import CoordinatorState, ManifestWritten
from paceline.coordinator.storage import wait_committed, wait_dropped, wait_swept
from paceline.coordinator.stored_values import StoredValues
from paceline.ids import cut_folder
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.contents import put_bytes
from paceline.store.cuts.claims import Claim, claim_place
from paceline.store.cuts.manifest import list_cuts, read_manifest

MINE = JobConfig(run="a1", keep_cuts=1, checkpoints="elsewhere")
THEIRS = JobConfig(run="b1", checkpoints="elsewhere")


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def claim(store: BlobStore, config: JobConfig) -> None:
    who = {"holder": "process 7 on h", "folder": "/jobs/copy"}
    claim_place(store, Claim(job=config.job, run=config.run, **who))


def commit(
    store: BlobStore, cut: int, config: JobConfig = MINE, timeline: int = 0
) -> ManifestWritten:
    folder, queue = cut_folder(cut, timeline), encode_queue(Queue())
    committed = CutCommitted(cut, timeline, folder, queue, {}, {}, (), ends_stage=False)
    return wait_committed(store, ManifestOrder(committed, (), 0), config, 0.0)


def sweep(store: BlobStore, newest: int, timeline: int = 0) -> list[str]:
    """The folders of cuts that are left."""
    folder = cut_folder(newest, timeline)
    record = CutRecord(newest, timeline, folder, b"", {}, {}, ())
    state = CoordinatorState(MINE, Durable(cut=record), 0.0)
    wait_swept(store, state, MINE, StoredValues(store, lambda _: True))
    return [cut.folder for cut in list_cuts(store)]


def test_a_manifest_says_of_which_job_it_is(store: BlobStore) -> None:
    claim(store, MINE)
    assert commit(store, 1) == ManifestWritten("cut-000001-t0", None)
    manifest = read_manifest(store, "cut-000001-t0")
    assert (manifest.job, manifest.run) == ("a1", "a1")


def test_a_run_that_was_taken_over_commits_and_removes_nothing(store: BlobStore) -> None:
    claim(store, MINE)
    for cut in (1, 2):
        commit(store, cut)
    claim(store, JobConfig(run="a2", job="a1"))
    written = commit(store, 3)
    assert written.is_taken_over
    for said in ("run 2 of job a1", "process 7 on h", "/jobs/copy", "one folder only"):
        assert said in str(written.error)
    wait_dropped(store, "cut-000002-t0", MINE.run)
    assert sweep(store, 2) == ["cut-000001-t0", "cut-000002-t0"]


def test_beside_cuts_of_another_job_only_own_cuts_go(store: BlobStore) -> None:
    commit(store, 1, THEIRS)
    theirs = put_bytes(store, b"of an evaluation that only their journal names")
    claim(store, MINE)
    for cut in (2, 3):
        commit(store, cut, timeline=1)
    assert sweep(store, 3, 1) == ["cut-000001-t0", "cut-000003-t1"]
    assert store.folder("values").names() == [theirs.digest]
    store.remove_folder("cut-000001-t0")
    assert sweep(store, 3, 1) == ["cut-000003-t1"]
    assert store.folder("values").names() == []
