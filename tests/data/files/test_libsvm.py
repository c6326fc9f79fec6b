"""Sparse records become flat ids and values, as an EmbeddingBag takes them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.data import Libsvm
from paceline.data.opening import open_source
from paceline.errors import DataError, UsageError

LINES = b"# three records\n+1 3:0.5 17:1  # a remark\r\n\n-1\n2.5 9007199254740993:2 4:1e-1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.svm").write_bytes(LINES)
    return tmp_path / "a.svm"


def test_a_batch_is_flat(path: Path) -> None:
    ids, values, offsets, labels = Libsvm(path).batch(np.array([2, 1, 0]))
    assert ids.tolist() == [9007199254740993, 4, 3, 17]
    assert torch.equal(values, torch.tensor([2, 0.1, 0.5, 1]))
    assert offsets.tolist() == [0, 2, 2]
    assert labels.tolist() == [2.5, -1, 1]
    assert [part.dtype for part in (ids, values, offsets, labels)] == [
        torch.int64,
        torch.float32,
        torch.int64,
        torch.float32,
    ]


def test_an_embedding_bag_takes_it(path: Path) -> None:
    batch = Libsvm(path).batch(np.array([0, 1]))
    bag = torch.nn.EmbeddingBag(18, 1, mode="sum")
    torch.nn.init.ones_(bag.weight)
    sums = bag(batch.ids, batch.offsets, per_sample_weights=batch.values)
    assert sums.flatten().tolist() == [1.5, 0]


def test_a_collate_function_gets_single_records(path: Path) -> None:
    source = open_source(Libsvm(path), collate_fn=list)
    (ids, values, label), (none, _, _) = source.batch(np.array([0, 1]))
    assert (ids.tolist(), values.tolist(), float(label)) == ([3, 17], [0.5, 1], 1)
    assert none.tolist() == []
    files = rf"a.svm {len(LINES)} bytes, xxh3 [0-9a-f]{{16}}"
    assert re.fullmatch(f"Libsvm {files} x 3", source.fingerprint())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"1 2", "got b'2'"),
        (b"1 2 3:4 5", "got b'2'"),
        (b"1 2:3:4", "got b'2:3:4'"),
        (b"1 -2:3", "got b'-2:3'"),
        (b"1 2:x", "got b'2:x'"),
        (b"1 qid:3 2:1", "got b'qid:3'"),
        (b"1 99999999999999999999:1", "got an id beyond int64"),
        (b"2:3 4:5", "got b'2:3' for the label"),
        (b"1_0 2:3", "got b'1_0' for the label"),
        (b"1 2:3_0", "got b'2:3_0'"),
        (b"1 2_0:3", "got b'2_0:3'"),
        (b"1\x0b2", "got b'2'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: bytes, text: str) -> None:
    (tmp_path / "a.svm").write_bytes(b"# x\n1 1:1\n" + line + b"\n")
    source = Libsvm(tmp_path / "a.svm")
    expected = f"a.svm, line 3: expected 'label id:value ...', {text}"
    with pytest.raises(DataError, match=expected):
        source.batch(np.array([0, 1]))


def test_no_record_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_bytes(b"# nothing\n\n")
    with pytest.raises(UsageError, match=r"Libsvm: no record in a.svm 11 bytes"):
        Libsvm(tmp_path / "a.svm")


def test_lines_of_blanks_and_indented_remarks_are_no_records(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf1 1:2 \t\r\n   \n\t # 7 7:7\n \r\n 2 1:1\n\x0b\n  "
    (tmp_path / "a.svm").write_bytes(content)
    source = Libsvm(tmp_path / "a.svm")
    assert len(source) == 2
    batch = source.batch(np.arange(2))
    assert (batch.labels.tolist(), batch.values.tolist()) == ([1, 2], [2, 1])
