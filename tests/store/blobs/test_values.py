"""Bytes beside the cuts are there once, under what they hash to, or they are refused."""

from pathlib import Path

import pytest

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.results import KeptBytes
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.contents import digests, get_bytes, put_bytes, remove_bytes

DATA = b"a value" * 99


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def test_the_same_bytes_lie_there_once(store: BlobStore, tmp_path: Path) -> None:
    kept = put_bytes(store, DATA)
    first = (tmp_path / "values" / kept.digest).stat().st_ino
    assert put_bytes(store, DATA) == kept
    assert (tmp_path / "values" / kept.digest).stat().st_ino == first
    assert get_bytes(store, kept) == DATA
    other = put_bytes(store, b"another")
    assert digests(store) == sorted([kept.digest, other.digest])
    remove_bytes(store, other.digest)
    remove_bytes(store, other.digest)
    assert digests(store) == [kept.digest]


def test_a_file_of_the_users_is_no_value(store: BlobStore, tmp_path: Path) -> None:
    assert digests(store) == []
    put_bytes(store, DATA)
    (tmp_path / "values" / "notes.txt").write_text("mine")
    assert len(digests(store)) == 1


def test_what_is_gone_or_changed_is_refused_by_file(
    store: BlobStore, tmp_path: Path
) -> None:
    kept = put_bytes(store, DATA)
    path = tmp_path / "values" / kept.digest
    path.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(CheckpointCorrupt, match=f"values/{kept.digest}: expected xxh3"):
        get_bytes(store, kept)
    path.write_bytes(DATA[:-1])
    with pytest.raises(CheckpointCorrupt, match="expected 693 bytes, came 692"):
        get_bytes(store, kept)
    assert put_bytes(store, DATA) == kept, "one that is cut short is written anew"
    assert get_bytes(store, kept) == DATA
    with pytest.raises(CheckpointCorrupt, match="the file is missing"):
        get_bytes(store, KeptBytes("0" * 32, 1))


def test_two_who_write_at_once_both_have_it(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = BlobStore.write

    def late(self: BlobStore, name: str, buffers: list[bytes]) -> object:
        write(self, name, buffers)  # the other one was faster
        return write(self, name, buffers)

    monkeypatch.setattr(BlobStore, "write", late)
    assert get_bytes(store, put_bytes(store, DATA)) == DATA


def test_a_disk_that_refuses_is_told(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(BlobStore, "write", refuse)
    with pytest.raises(StoreError, match="the disk is full"):
        put_bytes(store, DATA)
