"""Wherever a save dies, the old cut or the new one is there, whole: never a mix."""

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import StoreError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.retries import Patience
from paceline.store.cuts.manifest import (
    Manifest,
    list_cuts,
    newest_good_cut,
    write_manifest,
)
from paceline.store.cuts.retention import drop_cut, sweep

TakeCut = Callable[..., str]
DescribeCut = Callable[..., Manifest]
CALLS = ("open", "write", "fsync", "link", "unlink", "remove", "mkdir", "rmdir", "close")


class Died(BaseException):
    """The process is gone: nothing that it would have done afterwards is done."""


class Disk:
    """Counts the calls that change a folder, dies at one of them or refuses it.

    It also knows what a power loss leaves: bytes and names that were synced.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._real: dict[str, Callable[..., Any]] = {n: getattr(os, n) for n in CALLS}
        self.calls = 0
        self.dies_at = self.fails_at = 0
        self.fails_with = errno.EIO
        self.fails_once = True
        self.is_dead = False
        self.synced: set[int] = set()  # inodes
        self.names: dict[str, set[str]] = {}  # {folder: names that are durable}

    def watch(self) -> None:
        for name in CALLS:
            self._patch.setattr(os, name, self._wrapped(name))

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.is_dead:
                raise Died
            if name == "close":
                return self._real[name](*arguments, **options)
            self.calls += 1
            if self.calls == self.dies_at:
                self.is_dead = True
                raise Died
            if self.fails_at and (
                self.calls == self.fails_at
                or (self.calls > self.fails_at and not self.fails_once)
            ):
                raise OSError(self.fails_with, os.strerror(self.fails_with))
            result = self._real[name](*arguments, **options)
            if name == "fsync":
                self._note_synced(arguments[0])
            return result

        return call

    def _note_synced(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            self.names[path] = set(os.listdir(path))
        else:
            self.synced.add(os.fstat(descriptor).st_ino)

    def lose_power(self, root: Path) -> None:
        """Forget bytes and names that were never synced."""
        for folder, _, files in os.walk(root, topdown=False):
            durable = self.names.get(folder, set())
            for name in os.listdir(folder):
                path = Path(folder) / name
                if name not in durable and str(root) != folder:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                elif name in files and path.stat().st_ino not in self.synced:
                    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.fixture
def disk_without_plug() -> None:
    """Here syncing is watched."""


@pytest.fixture
def make_disk() -> Iterator[Callable[[], Disk]]:
    patches: list[pytest.MonkeyPatch] = []

    def make() -> Disk:
        patches.append(pytest.MonkeyPatch())
        return Disk(patches[-1])

    yield make
    for patch in patches:
        patch.undo()


def save(store: BlobStore, describe: DescribeCut, cut: int) -> None:
    """All that a save does to storage: files, manifest, and what it replaces goes."""
    write_manifest(store, describe(cut))
    sweep(store, 1, f"cut-{cut:06d}-t1")


def _is_refused(store: BlobStore, describe: DescribeCut) -> bool:
    try:
        write_manifest(store, describe(2))
    except StoreError as error:
        return "the disk is full" in str(error)
    return False


@pytest.mark.parametrize("power_fails", [False, True])
def test_a_crash_at_any_call_of_a_save_leaves_the_old_or_the_new_cut(
    store: BlobStore,
    describe_cut: DescribeCut,
    make_disk: Callable[[], Disk],
    *,
    power_fails: bool,
) -> None:
    root = Path(store.url)
    found: list[int] = []
    at, ended = 0, False
    while not ended:
        at += 1
        shutil.rmtree(root, ignore_errors=True)
        disk = make_disk()
        disk.watch()
        save(store, describe_cut, 1)
        disk.dies_at = disk.calls + at
        try:
            save(store, describe_cut, 2)
            ended = True
        except Died:
            pass
        disk._patch.undo()
        if power_fails:
            disk.lose_power(root)
        good = newest_good_cut(store)
        assert good.manifest is not None, f"call {at}: nothing to go back to"
        assert good.skipped == (), f"call {at}: half a cut"
        found.append(good.manifest.cut)
        if not ended:
            again = good.manifest.cut + 5
            save(store, describe_cut, again)
            assert [cut.cut for cut in list_cuts(store)] == [again]
    assert at > 25, "the calls of a save are counted"
    assert found == sorted(found)
    assert {found[0], found[-1]} == {1, 2}


def test_a_disk_that_is_full_at_any_call_keeps_the_old_cut_and_leaves_nothing(
    store: BlobStore, describe_cut: DescribeCut, make_disk: Callable[[], Disk]
) -> None:
    root = Path(store.url)
    refused = 0
    for at in range(1, 25):
        shutil.rmtree(root, ignore_errors=True)
        save(store, describe_cut, 1)
        disk = make_disk()
        disk.watch()
        disk.fails_at, disk.fails_with, disk.fails_once = at, errno.ENOSPC, True
        if not _is_refused(store, describe_cut):
            disk._patch.undo()
            continue
        refused += 1
        drop_cut(store, "cut-000002-t1")
        assert store.folders() == ["cut-000001-t1"]
        assert newest_good_cut(store).manifest is not None
        disk._patch.undo()
        save(store, describe_cut, 3)
        assert [cut.cut for cut in list_cuts(store)] == [3]
    assert refused > 15


def test_trouble_that_passes_is_waited_out_with_a_reason(
    store: BlobStore,
    describe_cut: DescribeCut,
    make_disk: Callable[[], Disk],
    caplog: pytest.LogCaptureFixture,
) -> None:
    root, seen = Path(store.url), 0
    for at in range(1, 25):
        shutil.rmtree(root, ignore_errors=True)
        caplog.clear()
        disk = make_disk()
        disk.watch()
        disk.fails_at = at
        save(store, describe_cut, 1)
        disk._patch.undo()
        assert newest_good_cut(store).manifest is not None
        seen += "Input/output error" in caplog.text and "trying again in" in caplog.text
    assert seen > 15


def test_trouble_that_stays_is_told_after_a_bounded_while(tmp_path: Path) -> None:
    waited: list[float] = []
    store = BlobStore(str(tmp_path), Patience((0.5, 2.0), waited.append))
    with pytest.MonkeyPatch.context() as patch:

        def forbid(*_: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        patch.setattr(os, "link", forbid)
        with pytest.raises(StoreError, match="not permitted"):
            store.write("a", [b"x"])
        assert waited == [], "what will not pass is told at once"

        def refuse(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr(os, "link", refuse)
        with pytest.raises(StoreError, match="Input/output error"):
            store.write("a", [b"x"])
    assert waited == [0.5, 2.0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "lost",
    [
        ConnectionError("the answer was lost"),
        FileExistsError("the library tried again by itself, and found its own object"),
        OSError(errno.EINVAL, "the same, in the words of another library"),
    ],
)
def test_a_write_that_came_through_after_all_is_no_error(
    store: BlobStore, lost: Exception
) -> None:
    remote = BlobStore(f"memory://came-through-{uuid.uuid4()}", store._patience)
    real = remote._fs.pipe_file

    def put(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        raise lost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote._fs, "pipe_file", put)
        entry = remote.write("a.bin", [b"once"])
    assert remote.read_entry(entry) == b"once"
    assert remote.write("a.bin", [b"once"]) == entry
    for other in (b"twice", b"ONCE"):
        with pytest.raises(StoreError, match="the name is taken"):
            remote.write("a.bin", [other])
    assert remote.read_entry(entry) == b"once"
