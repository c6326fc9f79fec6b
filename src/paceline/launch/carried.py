"""A function of the user's as what trainers run: the one place where anything is unpickled.

::

    launcher   function, arguments --cloudpickle--> bytes --> a file in the private folder
               of the job's sockets, mode 0600, that goes with the folder
    trainer    python -m paceline.launch.carried DIGEST: the file, if it is this very one,
               is read, and the function called

What the script or the notebook defines itself travels by value; what it imports is imported
by trainers, from where the caller's own imports come from. Only processes that its launcher
starts as trainers read the file: they would run the user's script otherwise, which is no
less code. Coordinator and servers never do.

Waits: for the disk. The thread that starts the job; a trainer's main thread.
"""

import dis
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

from paceline.errors import UsageError, describe_error
from paceline.ids import role_kind
from paceline.launch.job import UserScript, read_function, read_place

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_BYTES = 1 << 20
_MODULE = "paceline.launch.carried"
_ENDLESS = sys.maxsize  # the size of what cannot be pickled


def carry(function: Callable[..., object], args: Sequence[object]) -> UserScript:
    """What trainers run instead of a script: ``function(*args)``.

    Raises:
        UsageError: it cannot be taken along, or brings more than `MOST_BYTES`: the name of
            the variable, and what to do.
    """
    name = getattr(function, "__name__", type(function).__name__)
    _require_library()
    try:
        pickled = _dumps((function, tuple(args)))
    except _TooLargeError:
        what = _named(_heaviest(function, args))
        raise UsageError(
            f"paceline.run({name}): the function takes more than {MOST_BYTES:,} bytes to "
            f"each trainer, and so many travel at most; most of it is {what}: load or "
            "make it inside of the function, from a file or a seed"
        ) from None
    except Exception as error:  # whatever an object of the user's raises
        what = _named(_heaviest(function, args, has_failed=True))
        raise UsageError(
            f"paceline.run({name}): {what} cannot be taken to trainers, which are other "
            f"processes: {describe_error(error)}; make it inside of the function"
        ) from error
    entries: list[object] = [*sys.path]
    paths = [path for path in entries if isinstance(path, str)]  # Python sees no others
    content = json.dumps(paths).encode() + b"\n" + pickled
    digest = hashlib.sha256(content).hexdigest()
    word = re.sub(r"\W+", "", name) or "function"
    return UserScript(_MODULE, (digest,), True, word, content, bool(args))


class _TooLargeError(Exception):
    """More is pickled than may travel."""


@final
class _Bounded(io.BytesIO):
    """Takes as much as may travel, and no more, however large a variable is."""

    def write(self, data: "ReadableBuffer", /) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            raise _TooLargeError
        return super().write(data)


def _dumps(value: object) -> bytes:
    import cloudpickle  # noqa: PLC0415  (an extra)

    pickled = _Bounded()
    cloudpickle.dump(value, pickled)
    return pickled.getvalue()


def _require_library() -> None:
    try:
        import cloudpickle  # noqa: F401, PLC0415  (an extra)
    except ImportError:
        raise UsageError(
            "paceline.run takes a function to its trainers by cloudpickle, which is not "
            "installed: pip install 'paceline[notebook]', or name a script instead"
        ) from None


def _heaviest(
    function: Callable[..., object], args: Sequence[object], *, has_failed: bool = False
) -> list[str]:
    """The way to the variable that brings most, or to one that cannot be taken along."""
    way: list[str] = []
    names: dict[str, object] = {f"args[{i}]": value for i, value in enumerate(args)}
    known: set[int] = set()
    at: object = function
    least = _ENDLESS if has_failed else 0
    while True:
        known.add(id(at))
        names |= dict(_captured(at))
        sizes = {n: _size(value) for n, value in names.items() if id(value) not in known}
        found = max(sizes, key=sizes.__getitem__, default=None)
        if found is None or sizes[found] < least:
            return way
        way.append(found)
        least = _ENDLESS if has_failed else sizes[found] // 2
        at, names = names[found], {}


def _size(value: object) -> int:
    try:
        return len(_dumps(value))
    except _TooLargeError:
        return MOST_BYTES + 1
    except Exception:  # noqa: BLE001  (whatever an object of the user's raises)
        return _ENDLESS


def _captured(value: object) -> Iterator[tuple[str, object]]:
    """The variables that a function takes with it, by name."""
    if not isinstance(value, FunctionType):
        return
    for code in _codes(value.__code__):
        for one in dis.get_instructions(code):
            if one.opname == "LOAD_GLOBAL" and one.argval in value.__globals__:
                yield one.argval, value.__globals__[one.argval]
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is yet to be set
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _named(way: Sequence[str]) -> str:
    return " of ".join(repr(name) for name in reversed(way)) or "the function itself"


def main() -> None:
    """Call the function, as a trainer.

    Raises:
        UsageError: this process is no trainer, or the file is not what its launcher kept.
    """
    place = read_place(os.environ)
    if place is None or role_kind(place.role) != "trainer":
        raise UsageError("a function is called by trainers that paceline.run has started")
    content = read_function(place.sockets)
    if hashlib.sha256(content).hexdigest() != sys.argv[1]:
        raise UsageError(f"the function in {place.sockets} is not what the launcher kept")
    paths, _, pickled = content.partition(b"\n")
    callers = json.loads(paths)  # first, as they are there: else another module might be
    sys.path[:] = [*callers, *(path for path in sys.path if path not in callers)]
    import cloudpickle  # noqa: PLC0415  (an extra)

    called: tuple[Callable[..., object], tuple[Any, ...]] = cloudpickle.loads(pickled)
    function, args = called
    function(*args)


if __name__ == "__main__":
    main()
