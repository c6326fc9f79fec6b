"""Cuts in a bucket: the same promises as in a folder, on S3's own words."""

from collections.abc import Callable
from typing import Any

import pytest

from paceline.errors import StoreError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.manifest import (
    Manifest,
    list_cuts,
    newest_good_cut,
    write_manifest,
)
from paceline.store.cuts.retention import sweep

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def store(bucket: str) -> BlobStore:
    return BlobStore(f"{bucket}/job")


def test_cuts_are_kept_in_a_bucket(
    store: BlobStore, describe_cut: Callable[..., Manifest]
) -> None:
    assert list_cuts(store) == []
    for cut in (1, 2, 3):
        manifest = describe_cut(cut)
        write_manifest(store, manifest)
    assert newest_good_cut(store) == (manifest, ())
    with pytest.raises(StoreError, match="the name is taken"):
        store.write("cut-000003-t1/server-0.bin", [b"another"])
    assert sweep(store, 1, "cut-000003-t1") == ("cut-000001-t1", "cut-000002-t1")
    store.remove("cut-000003-t1/server-1.bin")
    describe_cut(4)
    assert [cut.cut for cut in list_cuts(store)] == [3]


def test_an_answer_that_was_lost_on_the_way_is_no_error(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library asks again by itself, and is told that its own object is there."""
    real = store._fs.pipe_file

    def put_twice(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(store._fs, "pipe_file", put_twice)
        entry = store.write("a.bin", [b"once"])
    assert store.read_entry(entry) == b"once"
    with pytest.raises(StoreError, match="the name is taken"):
        store.write("a.bin", [b"more"])
