"""How a script has failed, and whether it would end so again.

Its process tells it as it dies, and it lies beside the log of its role until the launcher
has read it. Who is killed leaves nothing. It would, if two of its incarnations have, on
other data::

    the same exception, at the same line, after as many batches of their own, the second
    begun when the first had ended (else what they met at once may have passed)
        while they held different tasks, or none    a bug: the job ends
        while they held the same task               a record may be the reason: the task is
                                                    tried again, and given up in time
    an error of the operating system's, or of the job's own   may pass: tried again

A batch at which the same line has failed before is under suspicion itself, and tells
nothing of the script.

Waits: for the disk. The dying process writes, the launcher reads; `Failures` is pure.
"""

import sysconfig
import traceback
from pathlib import Path
from typing import NamedTuple, final

import msgspec

from paceline.errors import PacelineError, spelt_out
from paceline.ids import TaskKey

_BEGUN_AGAIN = (
    "; loops that have ended yield no batches when a script begins again: do nothing "
    "behind a loop that gave none (docs/training-script.md)"
)
_OURS = str(Path(__file__).parents[1])
_ELSEWHERE = (_OURS, sysconfig.get_path("stdlib"), "-packages/", "<frozen ")


@final
class Failure(msgspec.Struct, frozen=True):
    """The exception that a script has ended with.

    ``kind`` is its class, ``text`` its class and what it says, in one line, ``place`` the
    line of the script: ``train.py:60``. The process had been given ``batches``, the last
    one was ``batch`` of ``task``, if the loop was not over. ``is_own``: the script's doing,
    as far as one can tell: neither the operating system's nor the job's. ``is_behind``: a
    loop had come to its end in this process.
    """

    kind: str
    text: str
    place: str
    batches: int
    task: str | None
    batch: int
    is_own: bool
    is_behind: bool = False

    def __str__(self) -> str:
        return f"{self.text}, at {self.place}, after {self.batches:,} batches"


def failure_of(
    error: BaseException,
    batches: int,
    last: tuple[TaskKey, int] | None,
    is_behind: bool = False,
) -> Failure:
    """What is told of an exception that came after so many batches, at the last of them.

    ``is_behind``: some loop had ended.
    """
    kind = type(error)
    task, batch = (None, 0) if last is None else (str(last[0]), last[1])
    said = (str(error).strip().splitlines() or [""])[0]
    return Failure(
        kind=f"{kind.__module__}.{kind.__qualname__}",
        text=spelt_out(f"{kind.__name__}: {said}" if said else kind.__name__),
        place=spelt_out(_place_of(error)),
        batches=batches,
        task=task,
        batch=batch,
        is_own=not isinstance(error, OSError | PacelineError | KeyboardInterrupt),
        is_behind=is_behind,
    )


def _place_of(error: BaseException) -> str:
    """The innermost line that is the user's own; without one, the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not any(part in f.filename for part in _ELSEWHERE)]
    for frame in reversed(own or frames):
        return f"{Path(frame.filename).name}:{frame.lineno}"
    return "an unknown line"


def write_failure(path: Path, failure: Failure) -> None:
    """Leave it to the launcher; without space on the disk, it is not told."""
    try:
        path.write_bytes(msgspec.json.encode(failure))
    except OSError:
        path.unlink(missing_ok=True)


def take_failure(path: Path) -> Failure | None:
    """What a process has left, once; None if it left nothing that can be read."""
    try:
        data = path.read_bytes()
        path.unlink()
        return msgspec.json.decode(data, type=Failure)
    except (OSError, msgspec.MsgspecError):
        return None


_Met = tuple[str, str, str | None, int]  # exception, line, task and batch


class _Ended(NamedTuple):
    role: str
    failure: Failure
    at_s: float


@final
class Failures:
    """The failures of a job's scripts."""

    def __init__(self) -> None:
        self._ended: list[_Ended] = []
        self._seen: dict[_Met, int] = {}  # {what failed where: how often}
        self._told: dict[str, tuple[int, str]] = {}  # {role: how often, the last one}

    def note(
        self, role: str, failure: Failure | None, otherwise: str, since_s: float, now: float
    ) -> str | None:
        """A script has failed; why the job ends with it, if it does.

        ``otherwise`` is to be said of one that could tell nothing; this incarnation of it
        was started at ``since_s``.
        """
        count, _ = self._told.get(role, (0, ""))
        self._told[role] = (count + 1, str(failure) if failure is not None else otherwise)
        if failure is None or not failure.is_own:
            return None
        met = _met(failure)
        self._seen[met] = self._seen.get(met, 0) + 1
        before = next(
            (
                ended
                for ended in self._ended
                if ended.at_s <= since_s and self._is_same(ended.failure, failure)
            ),
            None,
        )
        self._ended.append(_Ended(role, failure, now))
        if before is None:
            return None
        who = "it" if before.role == role else before.role
        where = "with other data" if failure.task is not None else "outside of a loop"
        hint = _BEGUN_AGAIN if failure.is_behind and not failure.batches else ""
        return f"{role} ended {where} as {who} had before: {failure} of its own{hint}"

    def told(self) -> dict[str, str]:
        """One sentence for each trainer whose script has failed."""
        return {
            role: f"{role} failed on the way, {_times(count)}: {last}"
            for role, (count, last) in sorted(self._told.items())
        }

    def _is_same(self, one: Failure, other: Failure) -> bool:
        if (one.kind, one.place, one.batches) != (other.kind, other.place, other.batches):
            return False
        if one.task is None or other.task is None:
            return True
        is_known = self._seen[_met(one)] > 1 or self._seen[_met(other)] > 1
        return one.task != other.task and not is_known


def _met(failure: Failure) -> _Met:
    return (failure.kind, failure.place, failure.task, failure.batch)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
