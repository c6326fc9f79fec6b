"""Trying storage again: which trouble may pass by itself, how often, how long between.

Networks blink, buckets say "slow down", a disk path is lost and found. A full disk, a
missing file or a missing right do not pass in seconds and are told at once.

Waits: nothing here does; `Patience.wait` is called between two tries.
"""

import errno
import time
from collections.abc import Callable
from typing import Final, NamedTuple

_LASTING: Final = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)
_LASTING_TYPES: Final = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    NotImplementedError,
    TypeError,
    ValueError,
)


class Patience(NamedTuple):
    """Pauses, in seconds, between two tries; tests hand in a ``wait`` that does not."""

    pauses_s: tuple[float, ...] = (0.1, 0.5, 2.0)
    wait: Callable[[float], object] = time.sleep


def may_pass(error: Exception) -> bool:
    """Whether the same call may succeed in a while."""
    if isinstance(error, _LASTING_TYPES):
        return False
    return not isinstance(error, OSError) or error.errno not in _LASTING
