"""Where predictions go: into a folder, a file for each task, or to a function.

A file has the name of its attempt (task, timeline, token of the lease), so that no two
attempts ever write the same file. What counts is the file whose attempt has counted:
``predictions.json``, written last, lists exactly those, in the order of the data.

Waits: for storage. The thread of the user's loop calls.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import msgspec
import numpy as np
import torch

from paceline.errors import StoreError, UsageError
from paceline.store.blobs import BlobStore
from paceline.store.tensors import write_tensors
from paceline.trainer.verdicts import Task

LISTING = "predictions.json"
_ALONE = "predictions"  # name of the tensor, when a step returns one alone
_PART = re.compile(r"part-\d{6}-\d+-\d+\.safetensors")
_log = logging.getLogger("paceline.trainer")

_RESERVED = "__metadata__"  # of safetensors: what tells about a file
_Keys = tuple[object, ...]

Write = Callable[[int, Any], None]


class PredictionFile(msgspec.Struct, frozen=True):
    """The file of a task: predictions for ``records`` records from ``first_record`` on."""

    name: str
    first_record: int
    records: int
    bytes: int
    xxh3: str


class Listing(msgspec.Struct, frozen=True):
    """``predictions.json``; ``missing_tasks`` were given up and have no file."""

    records: int
    missing_tasks: int
    files: tuple[PredictionFile, ...]


@final
class FolderPredictions:
    """Predictions as files in safetensors."""

    def __init__(self, url: str) -> None:
        """Look at the folder; it is made when first written to.

        Raises:
            UsageError: nothing that is installed knows this kind of URL.
        """
        self._store = BlobStore(url)
        self._is_checked = False
        self._first_record: int | None = None  # of the task
        self._batches: list[dict[str, torch.Tensor]] = []

    def begin(self) -> None:
        """Begin a task.

        Raises:
            UsageError: the folder holds predictions already.
        """
        if not self._is_checked and self._store.exists(LISTING):
            raise UsageError(
                f"predict: {self._store.url} holds predictions already; name a new folder, "
                "or remove it"
            )
        self._is_checked = True
        self._first_record, self._batches = None, []

    def add(self, first_record: int, records: int, predictions: object) -> None:
        """Take the predictions of a batch in.

        Raises:
            UsageError: they are no tensors with one entry for each record, or two have
                one name.
        """
        if self._first_record is None:
            self._first_record = first_record
        named: dict[str, torch.Tensor] = {}
        keys: dict[str, _Keys] = {}  # {name: where it lies}
        for path, value in _leaves(predictions):
            name = _name_of(path)
            if name in named:
                raise UsageError(
                    f"predict: the predictions at {_shown(keys[name])} and at "
                    f"{_shown(path)} would both be named {name!r} in the file, and one "
                    "would be lost; rename one of them"
                )
            named[name], keys[name] = _copied(name, value), path
        if not named:
            raise UsageError(f"predict: expected predictions, got {predictions!r}")
        for name, tensor in named.items():
            if tensor.ndim == 0 or len(tensor) != records:
                raise UsageError(
                    f"predict: expected {name!r} to have {records} entries, one for each "
                    f"record of the batch, got shape {tuple(tensor.shape)}"
                )
        if self._batches and named.keys() != self._batches[0].keys():
            raise UsageError(
                f"predict: one batch has {sorted(self._batches[0])}, another "
                f"{sorted(named)}; return the same for each"
            )
        self._batches.append(named)

    def finish(self, task: Task) -> bytes:
        """Write the file of the task; what tells of it."""
        first = self._first_record
        assert first is not None
        joined = {
            name: torch.cat([batch[name] for batch in self._batches])
            for name in self._batches[0]
        }
        records = len(next(iter(joined.values())))
        name = f"part-{task.key.task:06d}-{task.timeline}-{task.token}.safetensors"
        about = {"first_record": str(first), "records": str(records)}
        entry = write_tensors(self._store, name, joined, about)
        self._batches = []
        return msgspec.json.encode(
            PredictionFile(name, first, records, entry.bytes, entry.xxh3)
        )

    def value(self, results: Sequence[bytes], missing: int) -> bytes:
        """The listing of all that counts."""
        files = tuple(msgspec.json.decode(one, type=PredictionFile) for one in results)
        listing = Listing(sum(file.records for file in files), missing, files)
        return msgspec.json.format(msgspec.json.encode(listing))

    def end(self, value: bytes) -> None:
        """See to it that the listing is there, and nothing of attempts that do not count.

        Raises:
            StoreError: the storage fails, or the listing is another one's.
        """
        if not self._store.exists(LISTING):
            try:
                self._store.write(LISTING, [value])
            except StoreError:  # another trainer may have been faster
                if not self._store.exists(LISTING):
                    raise
        if self._store.read(LISTING) != value:
            raise UsageError(
                f"predict: {self._store.url}/{LISTING} is of other predictions; name a "
                "folder of its own for each call"
            )
        counted = {file.name for file in msgspec.json.decode(value, type=Listing).files}
        for name in self._store.names():
            if _PART.fullmatch(name) and name not in counted:
                self._store.remove(name)
        self._store.remove_temporaries()  # of the dead: all that counts is listed


@final
class CalledPredictions:
    """Predictions handed to a function of the user's, batch by batch."""

    def __init__(self, write: Write) -> None:
        """Hand them to ``write(first_record, predictions)``."""
        self._write = write

    def begin(self) -> None:
        """Begin a task."""

    def add(self, first_record: int, records: int, predictions: object) -> None:
        """Hand the predictions of a batch over."""
        del records
        self._write(first_record, predictions)

    def finish(self, task: Task) -> bytes:
        """Nothing is left to tell of a task."""
        del task
        return b""

    def value(self, results: Sequence[bytes], missing: int) -> bytes:
        """Nothing is left to tell."""
        del results, missing
        return b""

    def end(self, value: bytes) -> None:
        """Nothing is left to do."""


def open_predictions(writer: object) -> FolderPredictions | CalledPredictions:
    """What takes predictions: a folder (a path or an fsspec URL), or a function.

    Raises:
        UsageError: it is neither, or nothing knows this kind of URL.
    """
    if isinstance(writer, str | os.PathLike):
        return FolderPredictions(os.fspath(writer))
    if callable(writer):
        return CalledPredictions(writer)
    raise UsageError(
        "predict: expected writer to be a folder, its URL, or a function "
        f"(first_record, predictions), got {type(writer).__name__}"
    )


def _leaves(predictions: object, path: _Keys = ()) -> Iterator[tuple[_Keys, object]]:
    """Every tensor of what a step has returned, by the keys that lead there."""
    if isinstance(predictions, Mapping):
        pieces = list(predictions.items())
    elif isinstance(predictions, tuple | list):
        pieces = list(enumerate(predictions))
    else:
        yield path, predictions
        return
    for key, value in pieces:
        yield from _leaves(value, (*path, key))


def _name_of(path: _Keys) -> str:
    """What a tensor is called in the file: its keys with dots between them.

    Raises:
        UsageError: safetensors has no such name.
    """
    if not path:
        return _ALONE
    words = [str(key) for key in path]
    name = ".".join(words)
    is_unicode = name.encode(errors="ignore").decode() == name
    if "" in words or name == _RESERVED or not is_unicode:
        raise UsageError(
            f"predict: the predictions at {_shown(path)} would be named {name!r}, and a "
            "file in safetensors has no such name; give it another key"
        )
    return name


def _shown(path: _Keys) -> str:
    """``['a'][0]``."""
    return "".join(f"[{key!r}]" for key in path)


def _copied(name: str, value: object) -> torch.Tensor:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    raise UsageError(
        f"predict: expected {name!r} to be a tensor or an array, got {type(value).__name__}"
    )
