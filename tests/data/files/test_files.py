"""Files are found in one order everywhere, and read by as few ranges as will do."""

import os
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paceline.data.files.files import (
    DataFile,
    Ranges,
    describe_files,
    find_files,
    hash_ends,
    read_ranges,
    require_plain,
)
from paceline.errors import DataError, UsageError

BYTES = bytes(range(256)) * 1024  # 256 KiB


def names(files: tuple[DataFile, ...]) -> list[str]:
    return [file.name for file in files]


def ranges(*triples: tuple[int, int, int]) -> Ranges:
    return Ranges(*(np.array(column, np.int64) for column in zip(*triples, strict=True)))


def test_a_path_a_list_and_a_glob_find_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_bytes(name.encode())
    assert names(find_files(tmp_path / "b.txt")) == ["b.txt"]
    assert names(find_files(f"{tmp_path}/*.txt")) == ["a.txt", "b.txt"]
    listed = [tmp_path / "c.csv", f"{tmp_path}/*.txt"]
    assert names(find_files(listed)) == ["c.csv", "a.txt", "b.txt"]
    assert find_files(tmp_path / "b.txt")[0].size == 5


def test_a_name_with_a_star_in_it_is_taken_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("x")
    assert names(find_files(tmp_path / "a[1].txt")) == ["a[1].txt"]


def test_a_name_that_is_no_utf8_is_read_and_told(tmp_path: Path) -> None:
    (tmp_path / "\udcff.txt").write_text("one")
    [file] = find_files(str(tmp_path / "\udcff.txt"))
    assert file.size == 3
    assert describe_files([file]) == "\\udcff.txt 3 bytes"


def test_links_to_files_are_files(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("four")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).symlink_to(tmp_path / "blob")
    found = find_files(f"{tmp_path}/*.txt")
    assert [(file.name, file.size) for file in found] == [("a.txt", 4), ("b.txt", 4)]


def test_other_bytes_at_either_end_of_any_file_show(tmp_path: Path) -> None:
    def hashed(name: str, at: int) -> str:
        folder = tmp_path / f"{name}-{at}"
        folder.mkdir()
        for other, size in (("a.bin", 100_000), ("b.bin", 5_000), ("c.bin", 0)):
            data = bytearray(size)
            if other == name:
                data[at] = 1
            (folder / other).write_bytes(data)
        return hash_ends(find_files(f"{folder}/*.bin"))

    same = hashed("d.bin", 0)
    assert hashed("d.bin", 1) == same
    for name, at in (("a.bin", 0), ("a.bin", -1), ("a.bin", -4096), ("b.bin", 4500)):
        assert hashed(name, at) != same
    assert hashed("a.bin", 50_000) == same, "the middle is not looked at"


def test_names_are_told_below_the_folder_that_all_share(tmp_path: Path) -> None:
    for day in ("day=1", "day=2"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "part.csv").write_text("x")
    found = find_files(f"{tmp_path}/*/part.csv")
    assert names(found) == ["day=1/part.csv", "day=2/part.csv"]
    assert str(tmp_path) not in describe_files(found)


def test_other_file_systems_are_reached_by_their_protocol(
    memory: MemoryFileSystem,
) -> None:
    memory.pipe_file("/in/b.txt", b"b")
    memory.pipe_file("/in/a.txt", b"a")
    found = find_files("memory://in/*.txt")
    assert names(found) == ["a.txt", "b.txt"]
    assert found[0].url == "memory:///in/a.txt"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("missing.txt", "missing.txt: there is no such file"),
        ("*.none", r"\*.none: no file matches in /.*; expected at least one"),
        ("", "expected a file, got a folder; name its files, as in .*/\\*"),
    ],
)
def test_what_is_no_file_is_refused_by_name(tmp_path: Path, path: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        find_files(f"{tmp_path}/{path}")


def test_a_pattern_that_nothing_matches_is_told_with_the_folder_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as told:
        find_files("in*/nosuch-*.csv")
    assert str(told.value) == (
        f"in*/nosuch-*.csv: no file matches in {tmp_path}; expected at least one"
    )


def test_no_path_and_an_unknown_protocol_are_refused() -> None:
    with pytest.raises(UsageError, match=r"expected at least one path .* empty list"):
        find_files([])
    with pytest.raises(UsageError, match=r"gopher://x: cannot be opened: .*gopher"):
        find_files("gopher://x")


def test_packed_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"a.csv.gz: a packed file .* unpack it"):
        require_plain(find_files(tmp_path / "a.csv.gz"))


def test_many_files_are_described_in_one_line_that_tells_them_apart(
    tmp_path: Path,
) -> None:
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text("x")
    told = describe_files(find_files(f"{tmp_path}/*.txt"))
    (tmp_path / "8.txt").write_text("xy")
    assert told.startswith("0.txt 1 bytes, 1.txt 1 bytes, 2.txt 1 bytes, ... 9 files, 9")
    assert describe_files(find_files(f"{tmp_path}/*.txt")) != told


def test_ranges_come_back_in_the_order_asked(
    tmp_path: Path, memory: MemoryFileSystem
) -> None:
    (tmp_path / "a").write_bytes(BYTES)
    memory.pipe_file("/b", BYTES[::-1])
    files = find_files([tmp_path / "a", "memory://b"])
    asked = [(1, 7, 19), (0, 200_000, 200_100), (0, 5, 9), (1, 7, 19), (0, 9, 9)]
    contents = (BYTES, BYTES[::-1])
    expected = [contents[which][start:stop] for which, start, stop in asked]
    assert read_ranges(files, ranges(*asked)) == expected


def test_neighbours_are_read_together_and_far_ones_apart(
    tmp_path: Path, memory: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    local: list[tuple[int, int]] = []
    remote: list[tuple[list[int], list[int]]] = []
    pread, cat_ranges = os.pread, memory.cat_ranges

    def spy_pread(number: int, size: int, start: int) -> bytes:
        local.append((start, size))
        return pread(number, size, start)

    def spy_cat(
        paths: list[str], starts: list[int], ends: list[int], **more: str
    ) -> object:
        remote.append((starts, ends))
        return cat_ranges(paths, starts, ends, **more)

    monkeypatch.setattr(os, "pread", spy_pread)
    monkeypatch.setattr(memory, "cat_ranges", spy_cat)
    (tmp_path / "a").write_bytes(BYTES)
    memory.pipe_file("/b", BYTES)
    memory.pipe_file("/c", BYTES)
    files = find_files([tmp_path / "a", "memory://b", "memory://c"])
    far = [(90_000, 90_001), (10, 20), (4_000, 4_001)]
    read_ranges(files, ranges(*((which, *pair) for which in (0, 1, 2) for pair in far)))
    assert local == [(10, 3_991), (90_000, 1)]
    assert remote == [([10, 90_000, 10, 90_000], [4_001, 90_001, 4_001, 90_001])]


def test_a_file_that_has_shrunk_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(BYTES)
    files = find_files(path)
    path.write_bytes(b"short")
    text = "a.txt: expected bytes 0 to 10, came only 5 of them; the file has changed"
    with pytest.raises(DataError, match=text):
        read_ranges(files, ranges((0, 0, 10)))


def test_a_file_that_is_gone_is_named(tmp_path: Path, memory: MemoryFileSystem) -> None:
    (tmp_path / "a.txt").write_bytes(BYTES)
    memory.pipe_file("/b.txt", BYTES)
    files = find_files([tmp_path / "a.txt", "memory://b.txt"])
    (tmp_path / "a.txt").unlink()
    memory.rm_file("/b.txt")
    for which, name in enumerate(("a.txt", "b.txt")):
        with pytest.raises(DataError, match=rf"{name}: cannot read it: FileNotFound"):
            read_ranges(files, ranges((which, 0, 10)))
