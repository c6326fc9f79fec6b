"""Files in the format of LIBSVM and SVMlight: a label and the features that are not zero.

::

    1 3:0.5 17:1      # a remark
    -1 2:1 3:2.5 9:1

Features are kept as ids, not as a vector: what `torch.nn.EmbeddingBag` takes.

Source: the README of LIBSVM (Chang and Lin 2011); remarks as SVMlight has them.
Waits: for storage. The trainer's own thread calls.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np
import torch

from paceline.data.files.columns import float_tensor
from paceline.data.files.files import Options, Paths, describe_files
from paceline.data.files.lines import cut_libsvm, open_lines
from paceline.data.source import ItemSource, Records
from paceline.errors import DataError, UsageError

_BLANK = rb"[ \t\r\v\f]"
_LINES = re.compile(  # possessive: a long block is never gone back in
    rb"(?:[^\s:]++(?:" + _BLANK + rb"++[0-9]++:[^\s:]++)*+\n)*+"
)
_PAIR = re.compile(rb"[0-9]+:[^\s:]+")
_SHOWN = 60  # characters of a field in a message


class LibsvmBatch(NamedTuple):
    """Records of different lengths, laid end to end."""

    ids: torch.Tensor  # int64 (features of all records,)
    values: torch.Tensor  # float32, beside the ids
    offsets: torch.Tensor  # int64 (records,): where each one's features begin
    labels: torch.Tensor  # float32 (records,)


@final
class Libsvm(ItemSource):
    """Lines ``label id:value id:value ...``; a batch is a `LibsvmBatch`.

    Ids are taken as they stand, whether they begin at 0 or at 1. Lines of nothing but
    blanks, and lines that begin with ``#``, indented or not, are no records; a remark may
    also end a line. Opening reads every file once, for an index of 8 bytes a record; a
    batch then costs one read for each run of records that lie close together.

    Args:
        paths: path, glob, or a list of them, as fsspec takes them.
        transform: `LibsvmBatch` -> the batch that the loop gets.
        storage_options: for the file system, e.g. ``{"anon": True}`` for ``s3://``.

    Raises:
        UsageError: a file is missing or packed, a glob matches nothing, or there is no
            record.
        DataError: the storage fails.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        transform: Callable[[LibsvmBatch], Any] | None = None,
        storage_options: Options | None = None,
    ) -> None:
        super().__init__(transform)
        self._index = open_lines(paths, storage_options, cut_libsvm)
        if not len(self._index):
            raise UsageError(f"Libsvm: no record in {describe_files(self._index.files)}")

    def __len__(self) -> int:
        return len(self._index)

    def read(self, records: Records) -> LibsvmBatch:
        """All features of the records.

        Raises:
            DataError: a line is malformed, or the storage fails.
        """
        lines = self._index.read(records)
        texts = [line.partition(b"\n")[0].partition(b"#")[0].strip() for line in lines]
        try:
            return _parse(texts)
        except (OverflowError, ValueError) as error:
            raise self._malformed(records, texts) from error

    def items(self, records: Records) -> list[tuple[torch.Tensor, ...]]:
        """``(ids, values, label)`` of each record: int64, float32, float32 ``()``."""
        ids, values, offsets, labels = self.read(records)
        cuts = offsets[1:].tolist()
        return list(
            zip(
                torch.tensor_split(ids, cuts),
                torch.tensor_split(values, cuts),
                labels,
                strict=True,
            )
        )

    def join(self, items: list[tuple[torch.Tensor, ...]]) -> LibsvmBatch:
        """All features of these records."""
        ids, values, labels = zip(*items, strict=True)
        counts = torch.tensor([0, *map(len, ids)], dtype=torch.int64)
        offsets = counts.cumsum(0)[:-1]
        return LibsvmBatch(torch.cat(ids), torch.cat(values), offsets, torch.stack(labels))

    def fingerprint(self) -> str:
        """Names, sizes and a hash of the files (see `LineIndex`), number of records."""
        return f"Libsvm {self._index.describe()} x {len(self)}"

    def _malformed(self, records: Records, texts: list[bytes]) -> DataError:
        """What to say of the first line that is not right."""
        for record, text in zip(records.tolist(), texts, strict=True):
            if fault := _fault(text):
                return DataError(
                    f"{self._index.where(record)}: expected 'label id:value ...', {fault}"
                )
        raise AssertionError("lines were refused of which none has a fault")


def _parse(texts: list[bytes]) -> LibsvmBatch:
    """All lines at once, which costs a third of one after the other.

    Raises:
        OverflowError: an id is beyond int64.
        ValueError: one of them is malformed.
    """
    block = b"\n".join([*texts, b""])
    if not _LINES.fullmatch(block) or b"_" in block:
        raise ValueError
    rows = [text.split(None, 1) for text in texts]
    pairs = b" ".join([part for row in rows for part in row[1:]])
    fields = pairs.replace(b":", b" ").split()
    counts = np.array([0, *(text.count(b":") for text in texts)], np.int64)
    return LibsvmBatch(
        torch.from_numpy(np.array(list(map(int, fields[::2])), np.int64)),
        float_tensor(fields[1::2], torch.float32),
        torch.from_numpy(counts.cumsum()[:-1]),
        float_tensor([row[0] for row in rows], torch.float32),
    )


def _id(text: bytes) -> int:
    """A feature's id, if int64 holds it."""
    value = int(text)
    if value > np.iinfo(np.int64).max:
        raise ValueError
    return value


def _fault(text: bytes) -> str:
    """What is wrong with a line: the first of its fields that is not right; or nothing."""
    label, *pairs = text.split() or [b""]
    if not _is_number(label):
        return f"got {label[:_SHOWN]!r} for the label"
    for pair in pairs:
        id_, _, value = pair.partition(b":")
        if not _PAIR.fullmatch(pair) or not _is_number(value):
            return f"got {pair[:_SHOWN]!r}"
        if not _is_number(id_, _id):
            return f"got an id beyond int64: {id_[:_SHOWN]!r}"
    return ""


def _is_number(text: bytes, parse: Callable[[bytes], float] = float) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return b"_" not in text  # Python reads 1_000 as a number; here it is none
