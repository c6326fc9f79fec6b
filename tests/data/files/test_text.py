"""Lines of text are records that any trainer can reach."""

import re
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paceline.data import Text
from paceline.data.opening import open_source
from paceline.errors import DataError, UsageError
from paceline.ids import TaskKey
from paceline.messages.shared import StageSpec
from paceline.trainer.loop.loop import TaskReader
from paceline.trainer.verdicts import Batch


def test_a_batch_is_lines_without_their_breaks(memory: MemoryFileSystem) -> None:
    memory.pipe_file("/a.txt", "zero\r\n\nzwei é".encode())
    memory.pipe_file("/b.txt", b"three\n")
    source = Text("memory://*.txt")
    assert len(source) == 4
    assert source.batch(np.array([3, 2, 1, 0, 3])) == [
        "three",
        "zwei é",
        "",
        "zero",
        "three",
    ]


def test_a_transform_makes_the_batch(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b\nc\n")
    source = Text(tmp_path / "a.txt", transform=lambda lines: [len(line) for line in lines])
    assert open_source(source).batch(np.array([1, 0])) == [1, 3]


def test_an_epoch_of_tasks_reads_every_line_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(50)))
    (tmp_path / "b.txt").write_text("".join(f"{number}\n" for number in range(50, 103)))
    source = open_source(Text(f"{tmp_path}/*.txt"))
    spec = StageSpec(
        stage=0,
        records=len(source),
        batch_size=10,
        task_size=20,
        epochs=1,
        shuffle=True,
        seed=3,
        fingerprint=source.fingerprint(),
    )
    reader = TaskReader(source, spec)
    found = [
        int(line)
        for task in range(spec.num_tasks())
        for batch in range(spec.num_batches(task))
        for line in reader.read(Batch(TaskKey(stage=0, epoch=0, task=task), batch))
    ]
    assert found != list(range(103))
    assert sorted(found) == list(range(103))


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n\xff\n")
    source = Text(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"a.txt, line 2: expected UTF-8 text, got .*0xff"):
        source.batch(np.array([0, 1]))


def test_no_line_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(UsageError, match=r"Text: no line in a.txt 0 bytes"):
        Text(tmp_path / "a.txt")


def test_a_fingerprint_tells_names_sizes_and_lines_but_no_place(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("a\nb\n")
    mine = Text(tmp_path / "one" / "a.txt").fingerprint()
    assert re.fullmatch("Text a.txt 4 bytes, xxh3 [0-9a-f]{16} x 2", mine)
    assert Text(tmp_path / "two" / "a.txt").fingerprint() == mine
    (tmp_path / "two" / "a.txt").write_text("a\nc\n")
    assert Text(tmp_path / "two" / "a.txt").fingerprint() != mine


def test_other_lines_in_the_middle_show_by_where_they_begin(tmp_path: Path) -> None:
    told = []
    for number, lines in enumerate(["ab\nc\n", "a\nbc\n"]):
        path = tmp_path / str(number) / "a.txt"
        path.parent.mkdir()
        path.write_text("x" * 10_000 + "\n" + lines + "y" * 10_000)
        told.append(Text(path).fingerprint())
    assert told[0] != told[1]
