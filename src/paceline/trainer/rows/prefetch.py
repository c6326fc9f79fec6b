"""The next batch before it is delivered: of its records, the ids of its rows are found.

::

    step        the push goes out; the next batch is read, of tensors the ids alone; then
                the question goes out for their rows
    forward     its rows are here

Only where nobody can tell: what is of the user's own is read when it is its turn.

Where a batch holds the ids of a table is seen when they are looked up: they are one of its
tensors, or columns of one, in the same memory. What a model computes from a batch is not
found, and then rows are asked for when they are looked up, as ever.

Waits: for the data set, in `look` and `take`. The thread of the user's loop calls.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch

from paceline.data.source import ReadAhead
from paceline.trainer.verdicts import Batch

Path = tuple[int | str, ...]
Read = Callable[[Batch], Any]


class IdsPlace(NamedTuple):
    """Where ids lie in a batch: elements of one of its tensors, a row for each record."""

    path: Path
    tail: torch.Size  # of that tensor's shape, behind the records
    offset: int  # elements behind that tensor's first
    shape: tuple[int, ...]  # of the ids of one record
    strides: tuple[int, ...]


class _Read(NamedTuple):
    data: Any
    error: Exception | None


@final
class Prefetcher:
    """What one loop knows of the batches before and behind the user's step."""

    def __init__(self) -> None:
        # The batch that was delivered last, None outside of a loop.
        self.current: Any = None
        self.epoch = 0  # of that batch, or of the last one of a loop before
        self.keeps = False  # what is read ahead is not read again
        self._read: Read | None = None
        self._read_ahead: Read | None = None  # None where a data set could tell
        self._ahead: dict[Batch, _Read] = {}  # the one that comes first is the first

    def begin(self, read: Read, read_ahead: Read, ahead: ReadAhead) -> None:
        """A loop is open; ``read`` reads its batches, ``read_ahead`` before their turn."""
        self.end()
        self._read, self.keeps = read, ahead == "kept"
        self._read_ahead = None if ahead == "never" else read_ahead

    def end(self) -> None:
        """The loop is over, or all that it had begun is void."""
        self._read = self._read_ahead = self.current = None
        self.keeps = False
        self._ahead = {}

    def ahead(self, number: int) -> Any:  # noqa: ANN401  (the user's data)
        """The data that comes after ``number`` other batches, None if it is unknown."""
        read = [*self._ahead.values()][number : number + 1]
        return read[0].data if read else None

    def look(self, coming: Sequence[Batch]) -> None:
        """Read the batches that come next and are not read yet; forget any others.

        None of a data set that could tell; see `paceline.data.source.read_ahead_of`.
        """
        if (read := self._read_ahead) is not None:
            known = self._ahead
            self._ahead = {one: known.get(one) or _try(read, one) for one in coming}

    def take(self, batch: Batch) -> Any:  # noqa: ANN401  (the user's data)
        """The data of a batch that is delivered now; a data set's errors pass through."""
        assert self._read is not None
        self.current = None
        found = self._ahead.pop(batch, None)
        if found is None or not self.keeps:
            found = _Read(self._read(batch), None)
        if found.error is not None:
            raise found.error
        self.current, self.epoch = found.data, batch.key.epoch
        return self.current


def _try(read: Read, batch: Batch) -> _Read:
    try:
        return _Read(read(batch), None)
    except Exception as error:  # noqa: BLE001  (raised again when it is its turn)
        return _Read(None, error)


def find_ids(batch: object, ids: torch.Tensor) -> IdsPlace | None:
    """Where in a batch ids lie, None if they are not of its own memory."""
    if ids.device.type != "cpu" or ids.ndim == 0:
        return None
    start = ids.untyped_storage().data_ptr()
    for path, tensor in _tensors(batch, ()):
        if (
            tensor.untyped_storage().data_ptr() == start
            and tensor.dtype == ids.dtype
            and tensor.is_contiguous()
            and len(tensor) == len(ids)
            and tensor.stride(0) == ids.stride(0)
        ):
            offset = int(ids.storage_offset() - tensor.storage_offset())
            tail = tensor.shape[1:]
            return IdsPlace(path, tail, offset, tuple(ids.shape[1:]), ids.stride())
    return None


def ids_at(batch: Any, place: IdsPlace) -> torch.Tensor | None:  # noqa: ANN401  (the user's data)
    """The ids that lie there in another batch, None if that looks different."""
    found = batch
    for step in place.path:
        if isinstance(found, Mapping):  # of a `Glance` also by number
            found = found.get(step)
        elif isinstance(step, int) and isinstance(found, list | tuple):
            found = found[step] if step < len(found) else None
        else:
            return None
    if not isinstance(found, torch.Tensor) or not found.is_cpu or found.ndim == 0:
        return None
    if found.shape[1:] != place.tail or not found.is_contiguous():
        return None
    shape = (found.shape[0], *place.shape)
    return found.as_strided(shape, place.strides, found.storage_offset() + place.offset)


def _tensors(batch: object, path: Path) -> Iterator[tuple[Path, torch.Tensor]]:
    if isinstance(batch, torch.Tensor):
        if batch.device.type == "cpu" and batch.layout is torch.strided and batch.ndim:
            yield path, batch
    elif isinstance(batch, Mapping):
        for name, value in batch.items():
            if isinstance(name, str):
                yield from _tensors(value, (*path, name))
    elif isinstance(batch, list | tuple):
        for index, value in enumerate(batch):
            yield from _tensors(value, (*path, index))
