"""Texts to numbers: which kind a column of a text file is, and a tensor of that kind.

::

    all whole numbers                     int64
    numbers                               float32, or float64 if float32 blurs a whole one
    whole numbers, and some are missing   float64
    a whole number beyond int64           str       (a list of texts)
    anything else, or nothing             str

The kind is decided once, from the first records, never from a batch: a column must not be
whole numbers in one batch and fractions in the next. A user who knows better says so. A
missing number, an empty text, is NaN. Fractions are rounded. A whole number may be an id:
where nobody asked for fractions, one that would be rounded is refused, for two ids would
become one.

Pure.
"""

import math
import re
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from paceline.data.source import ItemSource, Records
from paceline.errors import DataError, UsageError

Kind = torch.dtype | type[str]
Column = torch.Tensor | list[str]

_WHOLE = (torch.int32, torch.int64)
FRACTIONS = (torch.float32, torch.float64)
_MAX_WHOLE = {torch.int32: (1 << 31) - 1, torch.int64: (1 << 63) - 1}
_HOLDS_WHOLE = {torch.float32: 1 << 24, torch.float64: 1 << 53}  # every one up to there
_SAYS_WHOLE = re.compile(r"\s*([+-]?[0-9]+)(?:\.0*)?\s*")
_INT64_LIKE = re.compile(r"\s*[+-]?[0-9]+\s*")


class ColumnSource(ItemSource, ABC):
    """A source whose batches are columns: ``{column: tensor (n, ...) or list}``."""

    def items(self, records: Records) -> list[dict[str, Any]]:
        """``{column: tensor () or (k,), or the value}`` of each record."""
        columns: dict[str, torch.Tensor | list[Any]] = self.read(records)
        parts = [
            column.unbind() if isinstance(column, torch.Tensor) else column
            for column in columns.values()
        ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*parts, strict=True)]

    def join(self, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The columns of these records."""
        return {name: _stacked([item[name] for item in items], name) for name in items[0]}


def choose_kind(texts: Sequence[str]) -> Kind:
    """The kind of a column whose first texts these are; see the table above."""
    present = [text for text in texts if text]
    if not present:
        return str
    if _say(present, torch.int64):
        return torch.int64 if len(present) == len(texts) else torch.float64
    # A whole number that int64 does not hold is an id, and any fraction would blur it.
    whole = [text for text in present if _INT64_LIKE.fullmatch(text)]
    if not _say(present, torch.float64) or not _say(whole, torch.int64):
        return str
    is_blurred = blurred(present, parse_numbers(present, torch.float32))
    return torch.float32 if is_blurred is None else torch.float64


def blurred(texts: Sequence[str], values: torch.Tensor) -> str | None:
    """The first text that says a whole number which its value, a fraction, is not.

    Rounding a fraction is what fractions are; ``16777217`` as float32 is another id. A
    number so large that it has become infinite counts too.
    """
    places: list[int] = _are_large(values).nonzero().flatten().tolist()
    for place in places:
        text, value = texts[place], float(values[place])
        if math.isinf(value):
            if "inf" not in text.lower():
                return text
            continue
        whole = _SAYS_WHOLE.fullmatch(text)
        if whole is not None and int(whole[1]) != int(value):
            return text
    return None


def parse_column(texts: Sequence[str], kind: Kind) -> Column:
    """All texts at once: a tensor ``(n,)`` of the kind, or for `str` a list of them.

    Raises:
        ValueError: one of them says no number of this kind.
    """
    return parse_numbers(texts, kind) if isinstance(kind, torch.dtype) else list(texts)


def parse_numbers(texts: Sequence[str], kind: torch.dtype) -> torch.Tensor:
    """The numbers ``(n,)`` that texts say.

    Raises:
        ValueError: one of them says none of this kind.
    """
    together = "".join(texts)
    # Python reads 1_000 and Arabic digits as numbers; in a file of data they are names.
    if "_" in together or not together.isascii():
        raise ValueError("expected numbers in ASCII without underscores")
    if kind in FRACTIONS:
        present = [text or "nan" for text in texts] if "" in texts else texts
        return float_tensor(present, kind)
    values, most = list(map(int, texts)), _MAX_WHOLE[kind]
    if values and not -most - 1 <= min(values) <= max(values) <= most:
        raise ValueError(f"expected whole numbers within {kind}")
    return torch.from_numpy(np.array(values, np.int64)).to(kind)


def has_large(values: torch.Tensor) -> bool:
    """Whether `blurred` has to look at the texts of these fractions."""
    return bool(_are_large(values).any())


def float_tensor(texts: Sequence[str] | Sequence[bytes], kind: torch.dtype) -> torch.Tensor:
    """What `float` makes of each text ``(n,)``; as float32 rounded, the largest infinite.

    Raises:
        ValueError: one of them is no number.
    """
    values = np.fromiter(map(float, texts), np.float64, len(texts))
    return torch.from_numpy(values).to(kind)


def check_kinds(kinds: Mapping[str, Kind], columns: Sequence[str]) -> None:
    """Refuse kinds of columns that are not there, and kinds that no text becomes.

    Raises:
        UsageError: names the column and what may be asked for.
    """
    for name, kind in kinds.items():
        if name not in columns:
            raise UsageError(
                f"dtypes: there is no column {name!r} among {', '.join(columns)}"
            )
        if kind is not str and kind not in (*_WHOLE, *FRACTIONS):
            raise UsageError(
                f"dtypes: expected int32, int64, float32 or float64 of torch, or str for "
                f"column {name!r}, got {kind!r}"
            )


def describe_kind(kind: Kind) -> str:
    """``int64``, ``float32``, ``str``."""
    return str(kind).removeprefix("torch.") if isinstance(kind, torch.dtype) else "str"


def select_columns(
    there: Sequence[str], wanted: Sequence[str] | None, where: str
) -> list[str]:
    """The columns to read, in the order asked for; all if none was named.

    Raises:
        UsageError: a column is not there, is named twice, or there are two of a name.
    """
    if isinstance(wanted, str):
        raise UsageError(f"columns: expected a list of names, got the text {wanted!r}")
    for names, origin in ((there, where), (wanted or (), "columns")):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            raise UsageError(f"{origin}: column {', '.join(twice)} is there twice")
    if wanted is None:
        return list(there)
    if not wanted:
        raise UsageError("columns: expected at least one name, got an empty list")
    for name in wanted:
        if name not in there:
            raise UsageError(
                f"{where}: there is no column {name!r} among {', '.join(there)}"
            )
    return list(wanted)


def _stacked(values: list[Any], name: str) -> torch.Tensor | list[Any]:
    if not any(isinstance(value, torch.Tensor) for value in values):
        return values
    kinds = sorted({_kind_of(value) for value in values})
    if len(kinds) > 1:
        raise DataError(
            f"column {name!r} is {' here and '.join(kinds)} there: the data sets of a "
            "ConcatDataset differ; expected one dtype in all of them"
        )
    return torch.stack(values)


def _kind_of(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return describe_kind(value.dtype)
    return type(value).__name__


def _are_large(values: torch.Tensor) -> torch.Tensor:
    return values.abs() >= _HOLDS_WHOLE[values.dtype]


def _say(texts: Sequence[str], kind: torch.dtype) -> bool:
    try:
        parse_numbers(texts, kind)
    except ValueError:
        return False
    return True
