"""A thousand flipped bytes and torn files: all are noticed, none is loaded."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.manifest import newest_good_cut
from paceline.store.cuts.shares import read_share_bytes
from paceline.store.journal import Journal

TakeCut = Callable[..., str]
IN_CUTS, IN_JOURNAL = 700, 300
RECORDS = [f"outcome {number}".encode() * 20 for number in range(40)]


def damage(pristine: bytes, dice: random.Random) -> bytes:
    """Flip some bits of one byte, or tear the file."""
    data = bytearray(pristine)
    at = dice.randrange(len(data))
    if dice.random() < 0.25:
        return bytes(data[:at])
    data[at] ^= dice.randrange(1, 256)
    return bytes(data)


@pytest.mark.slow
def test_of_700_damaged_cuts_none_is_loaded_and_the_older_one_is_taken(
    store: BlobStore, take_cut: TakeCut
) -> None:
    take_cut(1)
    place = Path(store.url) / take_cut(2)
    pristine = {path: path.read_bytes() for path in sorted(place.iterdir())}
    dice, noticed = random.Random(11), 0
    for number in range(IN_CUTS):
        path = list(pristine)[number % len(pristine)]
        path.write_bytes(damage(pristine[path], dice))
        good = newest_good_cut(store)
        assert good.manifest is not None
        assert good.manifest.cut == 1
        (problem,) = good.skipped
        assert path.name in problem
        noticed += 1
        path.write_bytes(pristine[path])
    assert noticed == IN_CUTS
    good = newest_good_cut(store)
    assert good.manifest is not None
    assert good.manifest.cut == 2


@pytest.mark.slow
def test_of_300_damages_to_a_journal_none_is_read_as_something_else(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.append(RECORDS)
    journal.close()
    pristine = path.read_bytes()
    used = [at for at, byte in enumerate(pristine) if byte]
    dice, noticed = random.Random(12), 0
    while noticed < IN_JOURNAL:
        data = bytearray(pristine)
        if dice.random() < 0.25:
            del data[dice.randrange(1, len(data)) :]
        else:
            data[dice.choice(used)] ^= dice.randrange(1, 256)
        path.write_bytes(data)
        for left in tmp_path.glob("journal.sqlite-*"):
            left.unlink()
        try:
            journal = Journal(path)
        except StoreError:
            noticed += 1
            continue
        try:
            # A flip in what SQLite does not use changes nothing: then all is as it was.
            assert journal.read() == RECORDS
        except StoreError:
            noticed += 1
        finally:
            journal.close()


def test_a_file_that_is_no_share_is_refused(store: BlobStore) -> None:
    for number, data in enumerate([b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"]):
        entry = store.write(f"file-{number}", [data])
        if data.endswith(b"{}"):
            assert read_share_bytes(store, entry).slots == {}
            continue
        with pytest.raises(CheckpointCorrupt, match="not a server's share"):
            read_share_bytes(store, entry)
