"""What can go wrong, in one tree below `PacelineError`, and ways out that are no errors.

Foreign exceptions are translated at the seam they come in by. A message says what was
expected, what came, where, and what to do.
"""

import errno
from typing import Final, final

LARGE_DO_NOT_PASS: Final = (
    "small frames pass, large do not: a part of the path drops packets as large as these "
    "machines send; give their interfaces the MTU that it takes (ip link set DEVICE mtu "
    "1400), or let its ICMP messages (fragmentation needed) through"
)
HAS_ENDED: Final = (
    "another trainer has called session.unshare for the model of part {part}, which this "
    "one still trains: call it at the same place in the script of every trainer"
)


class PacelineError(Exception):
    """Root of all errors that paceline raises on purpose."""


class UsageError(PacelineError):
    """The caller asked for something that cannot be; nothing has changed (exit code 2)."""


class RuleFailed(UsageError):
    """A combine rule of the user's own raised; rows are as they were.

    Attributes:
        at: which of the rows it was asked for, the first that it raises for alone; None if
            there is none.
    """

    def __init__(self, text: str, at: int | None = None) -> None:
        """Keep the row beside the text."""
        super().__init__(text)
        self.at = at


class HyperDiffers(UsageError):
    """Trainers of one round step with different hyper-parameters; nothing was applied."""


class DataError(PacelineError):
    """A file of the user's data cannot be read as what it should be; the text names it."""


class BatchUnreadable(DataError):
    """A process that reads batches could not read one; the text is what it said."""


class JobFailed(PacelineError):
    """The job as a whole cannot go on; the message carries the last cause (exit code 1)."""


class Refused(PacelineError):
    """Another role refused a message.

    Attributes:
        kind: a `paceline.messages.shared.Refusal` kind, e.g. ``"fenced"``.
    """

    def __init__(self, kind: str, text: str) -> None:
        """Keep the kind beside the text."""
        super().__init__(text)
        self.kind = kind


class LockLost(PacelineError):
    """A lock ended before its block did; nothing of the block was written, if not said so.

    Its rows may have changed since: take the lock again, and compute anew.

    Attributes:
        may_be_written: whether it is not known; never inside a loop, where what was
            written belongs to a batch.
    """

    def __init__(self, text: str, *, may_be_written: bool = False) -> None:
        """Keep what is not known beside the text."""
        super().__init__(text)
        self.may_be_written = may_be_written


class LockTimeout(PacelineError):
    """A lock was not to be had in time; the text says who has it."""


class TransportError(PacelineError):
    """The corridor between two roles failed."""


class PeerLost(TransportError):
    """The other end of a connection is gone; its successor may be reached by a new one."""


class DeadlineExceeded(TransportError):
    """Nobody answered within the deadline of the call."""


class HandshakeRefused(TransportError):
    """The other end does not let one in, or is nobody of ours."""


class ForeignPeer(HandshakeRefused):
    """The other end belongs to another run, version or secret; asking again is in vain."""


class FrameRefused(TransportError):
    """A frame broke the format or one of its limits; the connection is closed."""


class FrameDamaged(FrameRefused):
    """A checksum does not hold; what was asked can be asked anew, over a new connection."""


class StoreError(PacelineError):
    """What must survive could not be written or read."""


_FULL: Final = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
}


def why_full(error: OSError) -> str | None:
    """Why a disk takes nothing more, in a few words; None if it is something else."""
    return _FULL.get(error.errno or 0)


class StoreFull(StoreError):
    """There is no space, or no right to write; once there is, the same call succeeds.

    Attributes:
        place: the folder or URL whose disk it is.
        why: in a few words.
    """

    def __init__(self, text: str, place: str, why: str) -> None:
        """Keep place and reason beside the text."""
        super().__init__(text)
        self.place, self.why = place, why


class JournalCorrupt(StoreError):
    """A journal record does not match its checksum."""


class CheckpointCorrupt(StoreError):
    """A file of a cut is missing or does not match its manifest."""


USAGE_EXIT_CODE = 2  # wrong usage: starting the same again would not mend it
DISK_EXIT_CODE = 74  # EX_IOERR: of a coordinator whose journal finds no space
PREEMPTED_EXIT_CODE = 75  # EX_TEMPFAIL: told to leave, worth starting again


@final
class Preempted(SystemExit):
    """A trainer was told to leave: ends its script, through every ``except Exception``.

    What was stepped counts; the rest of its data goes to others. The process ends with
    `PREEMPTED_EXIT_CODE`.
    """

    def __init__(self, reason: str) -> None:
        """``reason``: who told it."""
        super().__init__(PREEMPTED_EXIT_CODE)
        self.reason = reason

    def __str__(self) -> str:
        """The reason."""
        return self.reason


@final
class Interrupted(SystemExit, KeyboardInterrupt):
    """A script that is its whole job was told to end, by Ctrl-C or SIGTERM: no error.

    As `Preempted`; an ``except KeyboardInterrupt`` of the script's gets it, too.
    """

    def __init__(self, reason: str) -> None:
        """``reason``: who told it."""
        super().__init__(PREEMPTED_EXIT_CODE)
        self.reason = reason

    def __str__(self) -> str:
        """The reason."""
        return self.reason


class IncompleteWarning(UserWarning):
    """Tasks were given up: an evaluation or prediction is of the other records alone."""


def describe_error(error: BaseException) -> str:
    """An error in one line: its type, its text and its notes."""
    text = str(error) if isinstance(error, BatchUnreadable) else _named(error)
    return spelt_out("; ".join([text, *getattr(error, "__notes__", ())]))


def spelt_out(text: str) -> str:
    """A text that can be sent and kept: bytes of a name that are no UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
