"""How a script has failed: told by its process as it dies, read by its launcher.

It lies beside the log of its role until the launcher has read it. Who is killed leaves
nothing.

Waits: for the disk. The dying process writes, the launcher reads.
"""

import sysconfig
import traceback
from pathlib import Path
from typing import final

import msgspec

from paceline.errors import PacelineError, spelt_out
from paceline.ids import TaskKey

_OURS = str(Path(__file__).parents[1])
_ELSEWHERE = (_OURS, sysconfig.get_path("stdlib"), "-packages/", "<frozen ")


@final
class Failure(msgspec.Struct, frozen=True):
    """The exception that a script has ended with.

    ``kind`` is its class, ``text`` its class and what it says, in one line, ``place`` the
    line of the script: ``train.py:60``. The process had been given ``batches``, the last
    one was ``batch`` of ``task``, if the loop was not over. ``is_own``: the script's doing,
    as far as one can tell: neither the operating system's nor the job's.
    """

    kind: str
    text: str
    place: str
    batches: int
    task: str | None
    batch: int
    is_own: bool

    def __str__(self) -> str:
        return f"{self.text}, at {self.place}, after {self.batches:,} batches"


def failure_of(
    error: BaseException, batches: int, last: tuple[TaskKey, int] | None
) -> Failure:
    """What is told of an exception that came after so many batches, at the last of them."""
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
