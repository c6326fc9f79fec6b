"""Where the threads of a process stand, for who asks at a socket of the job.

::

    SOCKETS/trainer-0.stacks    whoever connects is told, as JSON, and that is all

A thread of the process answers, with Python's lock held, so that nothing moves while it
looks. No signal is sent, which could meet a handler of the script's or end a process that
has none; no tracing is needed, which containers forbid. Why not `faulthandler` by a signal:
it reads frames while other threads run them, and can so end a healthy process. The price: a
process that stands in native code with Python's lock held does not answer.

Only processes on this machine can be asked: SOCKETS is the private folder of the sockets of
a run, which nobody but its user enters.

Waits: `offer_stacks` has a daemon thread that waits for askers, `wait_stacks` for answers.
"""

import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec

from paceline.timing import Deadline

MOST_FRAMES = 200  # of a thread, the innermost
TELL_S = 5.0  # an asker that does not read holds up those behind it for so long
_NAME = ".stacks"
_READ_BYTES = 1 << 16


class StackFrame(msgspec.Struct, frozen=True):
    """A call that has not returned: which function, and at which line of which file."""

    function: str
    file: str
    line: int


class ThreadStack(msgspec.Struct, frozen=True):
    """Where a thread stands; the innermost call is the last."""

    name: str
    frames: tuple[StackFrame, ...]


class ProcessStacks(msgspec.Struct, frozen=True):
    """Where all threads of a process stand, the main one first."""

    pid: int
    threads: tuple[ThreadStack, ...]


def offer_stacks(sockets: Path, role: str) -> None:
    """Answer who asks for the stacks of this process, as long as it lives.

    Where no socket can be made, nobody can ask, and nothing else is amiss.
    """
    path = sockets / f"{role}{_NAME}"
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)  # of the process that had this role before
        listener.bind(str(path))
        listener.listen()
    except OSError:
        listener.close()
        return
    threading.Thread(
        target=_answer_all, args=(listener,), name="stacks", daemon=True
    ).start()


def roles_with_stacks(sockets: Path) -> list[str]:
    """Roles whose processes have offered to say where they stand, in order.

    A rank of a trainer of several processes has its number behind it: ``trainer-0.1``.
    """
    names = [path.name.removesuffix(_NAME) for path in sockets.glob(f"*{_NAME}")]
    return sorted(names, key=_place)


def wait_stacks(
    sockets: Path, roles: Iterable[str], deadline: Deadline
) -> dict[str, ProcessStacks | None]:
    """Ask all of these at once; None: no whole answer came until ``deadline``.

    Those of which no process is there any more are left out.
    """
    found: dict[str, ProcessStacks | None] = {}
    told: dict[str, bytes] = {}
    with selectors.DefaultSelector() as waiting:
        for role in roles:
            opening = socket.socket(socket.AF_UNIX)
            opening.settimeout(0)
            try:
                opening.connect(str(sockets / f"{role}{_NAME}"))
            except BlockingIOError:  # too many others ask
                found[role] = None
                opening.close()
            except OSError:
                opening.close()
            else:
                found[role], told[role] = None, b""
                waiting.register(opening, selectors.EVENT_READ, role)
        while waiting.get_map() and not deadline.is_over():
            for key, _ in waiting.select(deadline.remaining_s()):
                asked, role = key.fileobj, key.data
                assert isinstance(asked, socket.socket)
                with suppress(ConnectionError):  # it has ended: what is there is not whole
                    if read := asked.recv(_READ_BYTES):
                        told[role] += read
                        continue
                    with suppress(msgspec.MsgspecError):
                        found[role] = msgspec.json.decode(told[role], type=ProcessStacks)
                waiting.unregister(asked)
                asked.close()
        for key in list(waiting.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
    return found


def stacks_here(left_out: int) -> ProcessStacks:
    """Where all threads of this process stand, but for the one ``left_out``."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sys._current_frames()
    order = sorted(frames, key=lambda ident: (ident != main, names.get(ident, "")))
    return ProcessStacks(
        os.getpid(),
        tuple(
            ThreadStack(
                _as_text(names.get(ident, "of no name")), tuple(_calls(frames[ident]))
            )
            for ident in order
            if ident != left_out
        ),
    )


def _answer_all(listener: socket.socket) -> None:
    own = threading.get_ident()
    while True:
        try:
            asker, _ = listener.accept()
        except OSError:  # no descriptor is free just now; the asker will have gone
            time.sleep(TELL_S)
            continue
        with asker, suppress(OSError):
            asker.settimeout(TELL_S)
            asker.sendall(msgspec.json.encode(stacks_here(own)))


def _calls(frame: FrameType | None) -> Iterator[StackFrame]:
    found: list[StackFrame] = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        function, file = _as_text(code.co_qualname), _as_text(code.co_filename)
        found.append(StackFrame(function, file, frame.f_lineno or 0))
        frame = frame.f_back
    return reversed(found)


def _as_text(name: str) -> str:
    """A name that JSON can hold: bytes of a file's that are no UTF-8 are spelt out."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _place(role: str) -> tuple[str, list[int]]:
    kind, _, number = role.partition("-")
    return kind, [int(part) for part in number.split(".") if part.isdigit()]
