"""Rows that are replaced only if nobody has changed them since they were read.

::

    rows, versions = table.pull(ids, versions=True)     no lock while the script computes
    table.push(ids, new, if_version=versions)           locked, looked at, written, let go

A row's version is a fingerprint of its values, as the entity tags of HTTP are (RFC 9110,
8.8.3): whoever finds the same version finds the same row, on whichever timeline. Servers
keep no count of anything, and what is pushed is what a block under a lock writes: it has
the window of its batch, and its effect once.

Waits: as a lock does. The thread of the user's script calls.
"""

from typing import Any

import numpy as np
import xxhash

from paceline.errors import LockLost, UsageError
from paceline.params.rows import Array, Int64s
from paceline.trainer.tables.locks import RowLock


class _IsOld(Exception):  # noqa: N818  (leaves a block without writing; nobody sees it)
    """Some rows are not those that were read."""


def versions_of(values: Array) -> Int64s:
    """The version of each row: int64 (n,), a fingerprint of the bytes of its values.

    Args:
        values: (n, dim), of any dtype of numbers.
    """
    digest, width = xxhash.xxh3_64_intdigest, values.itemsize * values.shape[1]
    flat = values.tobytes()
    starts = range(0, len(values) * width, width)
    found = (digest(flat[start : start + width]) for start in starts)
    return np.fromiter(found, np.uint64, len(values)).view(np.int64)


def checked_versions(name: str, ids: Int64s, versions: Any) -> Int64s:  # noqa: ANN401  (whatever a user says)
    """What a script says it has read, one version for each id.

    Raises:
        UsageError: there are others than ids, they are not int64, or an id is repeated.
    """
    found = np.asarray(versions)
    if found.dtype != np.int64 or found.shape != ids.shape:
        raise UsageError(
            f"push: expected if_version as int64 {ids.shape}, as "
            f"table.pull(ids, versions=True) of {name!r} returns it, got {found.dtype} "
            f"{found.shape}"
        )
    if len(np.unique(ids)) != len(ids):
        raise UsageError(
            f"push: expected each id of table {name!r} once: of several values for one "
            f"row, all but one would be computed from an old version"
        )
    return found


def replace_unchanged(lock: RowLock, ids: Int64s, values: Array, read: Int64s) -> Int64s:
    """Replace all rows if all are as they were read; or none.

    Args:
        lock: on ``ids``, not entered yet.
        ids: distinct, (n,).
        values: (n, ...), what the rows become.
        read: the versions that they have been computed from.

    Returns:
        The ids whose rows have changed since; none if all was written. All of them if
        the lock was lost meanwhile: nothing was written then, either.

    Raises:
        LockTimeout: others have had rows under locks of theirs all the time.
        LockLost: outside of a loop, and it is not known whether the rows are written.
    """
    refused = ids[:0]
    try:
        with lock as rows:
            current = rows.values.reshape(len(ids), -1)
            refused = ids[versions_of(current) != read]
            if len(refused):
                raise _IsOld
            rows.values[...] = values.reshape(rows.values.shape)
    except _IsOld:
        pass
    except LockLost as lost:
        if lost.may_be_written:
            raise
        return ids
    return refused
