"""What locks and atomic steps say, on the links of a trainer to servers and coordinator.

::

    Lock -> Locked    rows, and the token of the lock, when nobody before it has them
    Push              with that token: the rows as they are now; the lock is let go
    Unlock            the lock, or the place in the line, is let go; nothing is written

    Push (is_held)    prepared at every server, under its number
    CommitStep        the coordinator journals which pushes are one step
    ApplyStep         every server lets them have their effect
"""

import msgspec

from paceline.messages.shared import Message, TrainerMessage


class RowSlots(msgspec.Struct, frozen=True):
    """Ids of one table grouped by slot: ``counts[i]`` ids belong to ``slots[i]``.

    With ``replaces`` a push brings rows as they are from now on, whatever the table's rule.
    """

    table: str
    slots: tuple[int, ...]
    counts: tuple[int, ...]
    replaces: bool = False


class Lock(TrainerMessage, frozen=True):
    """Have these rows alone, or with others who only read; their values come along.

    ``number`` grows with each lock of this incarnation on the part; asked again with the
    same one, it keeps its place and its token. Answered by `Locked`, `Waiting` with who has
    them, or refused as ``lock_lost``. It lasts ``lease_s`` after it was last heard of.
    Buffers: the int64 ids of ``rows``.
    """

    part: int
    number: int
    rows: RowSlots
    is_shared: bool
    lease_s: float


class Locked(Message, frozen=True):
    """The rows are the asker's. Buffers: their values, in the order of the ids."""

    token: int


class Unlock(TrainerMessage, frozen=True):
    """Let a lock go, or the place in its line; one that is gone already stays so."""

    part: int
    number: int


class KeepLocks(TrainerMessage, frozen=True):
    """The asker lives, and so do its locks: their numbers by part."""

    numbers: dict[int, tuple[int, ...]]


class CommitStep(TrainerMessage, frozen=True):
    """All servers hold these pushes, {part: number}: let them be one step. `Done`.

    Asked again with the same ones, it changes nothing.
    """

    pushes: dict[int, int]


class ApplyStep(TrainerMessage, frozen=True):
    """The coordinator has committed these pushes, {part: number}. `Done` when applied.

    With ``is_dropped`` it was never asked to, and never will be: they have no effect.
    """

    pushes: dict[int, int]
    is_dropped: bool = False
