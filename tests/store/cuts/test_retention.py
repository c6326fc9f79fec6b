"""A cut goes only when enough newer ones are whole, byte by byte."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.failpoints import InjectedFault
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.manifest import Manifest, list_cuts, newest_good_cut, read_manifest
from paceline.store.cuts.retention import sweep

TakeCut = Callable[..., str]
DescribeCut = Callable[..., Manifest]


def path_of(store: BlobStore, name: str) -> Path:
    return Path(store.url) / name


def spoil(store: BlobStore, name: str) -> None:
    path = path_of(store, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_sweep_keeps_the_newest_and_is_repeatable(
    store: BlobStore, take_cut: TakeCut
) -> None:
    assert sweep(store, 1, "cut-000001-t1") == ()
    folders = [take_cut(cut) for cut in range(1, 6)]
    assert sweep(store, 2, folders[-1]) == tuple(folders[:3])
    assert store.folders() == folders[3:]
    assert sweep(store, 2, folders[-1]) == ()


def test_sweep_keeps_an_older_cut_while_a_newer_one_is_damaged(
    store: BlobStore, take_cut: TakeCut
) -> None:
    folders = [take_cut(cut) for cut in range(1, 5)]
    spoil(store, f"{folders[3]}/server-0.bin")
    assert sweep(store, 2, folders[-1]) == (folders[0],)
    spoil(store, f"{folders[2]}/server-0.bin")
    assert sweep(store, 1, folders[-1]) == ()
    assert newest_good_cut(store).manifest == read_manifest(store, folders[1])


def test_sweep_clears_uncommitted_folders_but_not_those_in_progress(
    store: BlobStore, take_cut: TakeCut, describe_cut: DescribeCut
) -> None:
    describe_cut(1)
    describe_cut(2)
    newest = take_cut(3)
    describe_cut(4)
    path_of(store, "notes").mkdir()
    assert sweep(store, 2, newest) == ("cut-000001-t1", "cut-000002-t1")
    assert store.folders() == [newest, "cut-000004-t1", "notes"]


def test_a_cut_that_the_journal_does_not_know_replaces_nothing(
    store: BlobStore, take_cut: TakeCut
) -> None:
    folders = [take_cut(cut) for cut in range(1, 4)]
    assert sweep(store, 1, folders[1]) == (folders[0],)
    assert store.folders() == folders[1:]
    assert sweep(store, 1, "cut-000009-t1") == ()
    assert store.folders() == folders[1:]


def test_interrupted_sweep_leaves_no_cut_without_its_files(
    store: BlobStore, take_cut: TakeCut, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_cut(1)
    newest = take_cut(2)

    def die(_store: BlobStore, _name: str) -> None:
        raise InjectedFault

    with monkeypatch.context() as crash:
        crash.setattr(BlobStore, "remove_folder", die)
        with pytest.raises(InjectedFault):
            sweep(store, 1, newest)
    assert [cut.folder for cut in list_cuts(store)] == [newest]
    assert sweep(store, 1, newest) == ("cut-000001-t1",)
