"""Files are written once, whole or not at all, and never outside the root."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import xxhash

from paceline.errors import CheckpointCorrupt, StoreError, StoreFull
from paceline.messages.server import FileEntry
from paceline.store.blobs.blobs import BlobStore, digest


@pytest.fixture(params=["local", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "local":
        return BlobStore(str(tmp_path / "root"))
    return BlobStore(f"memory://{tmp_path.name}-{os.getpid()}")


def test_contract_of_every_store(any_store: BlobStore) -> None:
    assert any_store.names() == any_store.folders() == []
    entry = any_store.write("cut/a.bin", [b"one ", memoryview(b"two"), bytearray()])
    assert entry == FileEntry("a.bin", 7, xxhash.xxh3_64_hexdigest(b"one two"))
    assert any_store.read("cut/a.bin") == b"one two"
    assert any_store.folders() == ["cut"]
    cut = any_store.folder("cut")
    assert cut.read_entry(entry) == b"one two"
    cut.verify(entry)
    assert cut.names() == ["a.bin"]
    with pytest.raises(StoreError, match=r"a\.bin: the name is taken"):
        cut.write("a.bin", [b"another"])
    assert cut.read_entry(entry) == b"one two"
    cut.write("b.bin", [])
    assert cut.size("b.bin") == 0
    cut.remove("b.bin")
    cut.remove("b.bin")
    assert not cut.exists("b.bin")
    with pytest.raises(StoreError, match=r"b\.bin: there is no such file"):
        cut.read("b.bin")
    any_store.remove_folder("cut")
    any_store.remove_folder("cut")
    assert any_store.folders() == []


def test_a_folder_that_was_begun_is_not_made_again(tmp_path: Path) -> None:
    """What has the name of a folder above it by then is somebody else's."""
    root = tmp_path / "job" / "checkpoints"
    BlobStore(str(root)).make_root()
    store = BlobStore(str(root), is_begun=True)
    store.folder("cut").write("a.bin", [b"a"])
    shutil.rmtree(tmp_path / "job")
    (tmp_path / "job").mkdir()

    for write in (store.write, store.folder("cut").write):
        with pytest.raises(StoreError, match=r"job/checkpoints was there .* and is gone"):
            write("b.bin", [b"b"])
    assert store.names() == []
    assert list((tmp_path / "job").iterdir()) == []

    root.mkdir()
    store.write("b.bin", [b"b"])


def test_size_counts_bytes_not_elements(any_store: BlobStore) -> None:
    numbers = memoryview(bytes(24)).cast("q")
    assert any_store.write("numbers", [numbers]).bytes == 24
    assert any_store.size("numbers") == 24


def test_entry_that_differs_is_named(any_store: BlobStore) -> None:
    any_store.write("a.bin", [b"abcd"])
    for entry, message in [
        (FileEntry("a.bin", 5, digest(b"abcd")), r"a\.bin: expected 5 bytes, came 4"),
        (FileEntry("a.bin", 4, digest(b"abce")), r"a\.bin: expected xxh3 .*, came "),
        (FileEntry("b.bin", 4, digest(b"abcd")), r"b\.bin: the file is missing"),
    ]:
        with pytest.raises(CheckpointCorrupt, match=message):
            any_store.verify(entry)
        with pytest.raises(CheckpointCorrupt, match=message):
            any_store.read_entry(entry)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../a",
        "a/../../b",
        "a//b",
        "a/",
        ".hidden",
        "a\\b",
        "a\n",
        "~",
        "x" * 201,
    ],
)
def test_names_that_are_not_ours_are_refused(any_store: BlobStore, name: str) -> None:
    for call in (any_store.read, any_store.size, any_store.folder, any_store.remove_folder):
        with pytest.raises(StoreError, match="is no name of ours"):
            call(name)
    with pytest.raises(StoreError, match="is no name of ours"):
        any_store.write(name, [b""])


def test_links_do_not_lead_out_of_the_root(store: BlobStore, tmp_path: Path) -> None:
    store.write("cut/a.bin", [b"mine"])
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_bytes(b"theirs")
    (Path(store.url) / "way-out").symlink_to(secret)
    (Path(store.url) / "cut" / "key").symlink_to(secret / "key")
    for name in ("way-out/key", "cut/key"):
        with pytest.raises(StoreError, match="a symbolic link"):
            store.read(name)
    with pytest.raises(StoreError, match="a symbolic link"):
        store.write("way-out/new", [b""])
    with pytest.raises(StoreError, match="a symbolic link"):
        store.remove_folder("way-out")
    assert store.folders() == ["cut"]
    assert store.folder("cut").names() == ["a.bin"]
    store.remove_folder("cut")
    assert (secret / "key").read_bytes() == b"theirs"


def test_pipe_in_the_place_of_a_file_does_not_hang(store: BlobStore) -> None:
    store.write("cut/a.bin", [b"mine"])
    os.mkfifo(Path(store.url) / "cut" / "pipe")
    with pytest.raises(StoreError, match="expected a file, got a other"):
        store.read("cut/pipe")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the disk is read-only"),
    ],
)
def test_full_disk_leaves_nothing_and_says_what_to_do(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, code: int, why: str
) -> None:
    store.write("cut/older", [b"kept"])

    def refuse(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", refuse)
        with pytest.raises(StoreFull, match=rf"write cut/a\.bin: {why}") as told:
            store.write("cut/a.bin", [b"lost"])
    assert (told.value.place, told.value.why) == (store.url, why)
    assert os.listdir(Path(store.url) / "cut") == ["older"]
    store.write("cut/a.bin", [b"again"])
    assert store.read("cut/a.bin") == b"again"


def test_file_is_synced_before_it_has_its_name_and_the_folder_after(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("cut/first", [b""])
    folder = Path(store.url) / "cut"
    synced: list[tuple[str, list[str]]] = []

    def record(descriptor: int) -> None:
        synced.append(
            (os.readlink(f"/proc/self/fd/{descriptor}"), sorted(os.listdir(folder)))
        )

    monkeypatch.setattr(os, "fsync", record)
    store.write("cut/second", [b""])
    (temporary, names_before), (synced_last, names_after) = synced
    assert names_before == [Path(temporary).name, "first"]
    assert (synced_last, names_after) == (str(folder), ["first", "second"])


def test_failing_disk_is_told_from_a_full_one(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError, match="Input/output error"):
        store.write("a.bin", [b"lost"])


def test_temporaries_of_a_dead_writer_are_not_seen(store: BlobStore) -> None:
    store.write("cut/a.bin", [b"whole"])
    (Path(store.url) / "cut" / ".0123456789abcdef.tmp").write_bytes(b"ha")
    assert store.folder("cut").names() == ["a.bin"]
