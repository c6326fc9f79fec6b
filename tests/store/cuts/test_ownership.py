"""Cuts of another job, left by versions that shared places, are never touched."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.claims import Owner, foreign_cuts
from paceline.store.cuts.manifest import Manifest, newest_good_cut, write_manifest
from paceline.store.cuts.retention import sweep

DescribeCut = Callable[..., Manifest]
Take = Callable[..., str]


@pytest.fixture
def take(store: BlobStore, describe_cut: DescribeCut) -> Take:
    """Commit a cut of a job, or of a run of a version that named no job; its folder."""

    def take(cut: int, timeline: int, job: str = "", run: str = "run") -> str:
        manifest = describe_cut(cut, timeline)
        write_manifest(store, msgspec.structs.replace(manifest, job=job, run=run))
        return f"cut-{cut:06d}-t{timeline}"

    return take


def spared(store: BlobStore, owner: Owner) -> list[str]:
    return [foreign.cut.folder for foreign in foreign_cuts(store, owner)]


def test_a_cut_is_of_the_job_that_its_manifest_names(store: BlobStore, take: Take) -> None:
    folders = [take(1, 0, "a"), take(2, 0, "b"), take(3, 1, "a")]
    assert spared(store, Owner("a")) == [folders[1]]
    assert spared(store, Owner("b", has_unnamed=True)) == [folders[0], folders[2]]
    (foreign,) = foreign_cuts(store, Owner("a"))
    assert foreign.why.endswith("cut-000002-t0: it is of job b")


def test_cuts_that_name_no_job_are_own_in_the_own_folder_and_of_the_own_run(
    store: BlobStore, take: Take
) -> None:
    folders = [take(1, 0, run="r1"), take(2, 1, run="r2"), take(3, 2, job="r2")]
    assert spared(store, Owner("r2", has_unnamed=True)) == []
    assert spared(store, Owner("r2")) == folders[:1]
    assert spared(store, Owner("new")) == folders, "never those of a new job"


def test_the_newest_own_cut_is_found_among_newer_ones_of_others(
    store: BlobStore, take: Take
) -> None:
    take(1, 0, "a")
    take(9, 4, "b")
    folders = spared(store, Owner("a"))
    found = newest_good_cut(store, spared=folders)
    assert found.manifest is not None
    assert found.manifest.job == "a"
    assert newest_good_cut(store, spared=spared(store, Owner("c"))) == (None, ())


def test_old_cuts_of_others_stay_when_own_ones_are_swept(
    store: BlobStore, take: Take
) -> None:
    others = [take(1, 0, "b"), take(2, 2, "b")]
    own = [take(3, 3, "a"), take(4, 3, "a"), take(5, 3, "a")]
    assert sweep(store, 1, own[-1], spared(store, Owner("a"))) == tuple(own[:2])
    assert store.folders() == [*others, own[-1]]


def test_what_nobody_can_tell_is_left_alone_where_others_were(
    store: BlobStore, take: Take, describe_cut: DescribeCut
) -> None:
    describe_cut(1, 0)  # begun, never committed
    damaged = take(2, 1, "b")
    (Path(store.url) / damaged / "manifest.json").write_bytes(b"?")
    take(3, 2, "b")
    describe_cut(4, 3)
    own = take(5, 3, "a")
    assert spared(store, Owner("a")) == ["cut-000001-t0", damaged, "cut-000003-t2"]
    assert sweep(store, 1, own, spared(store, Owner("a"))) == ("cut-000004-t3",)
