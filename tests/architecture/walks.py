"""How many files one operation walks through, found by doing it.

Each operation is done by a user's own call, in a job inside this process where every role's
own code runs; `sys.setprofile` tells which files of ``src/paceline`` it enters::

    push       `optimizer.step` of a dense model in `Async`: a push, and the pull behind it
    told push  the same, where it is time to tell the coordinator of it as well
    rows       `Embedding` looks up ids that nobody has looked up before
    lease      ``next(loop)`` where no batch is left: to ask for a task, and begin it
    server     inside the server, for one push: how often the file changes
    follower   messages between rank 1 of a trainer of two and its leader, for one step

A **file** counts once however often it is entered; a function called, or a generator gone
on with, enters it. A **change of file** at the server: between the call of its service with
a `Push` and the return of it, frames of ``paceline/server`` alone are looked at. It is a
call into another file than that of the nearest such frame below, or the return to one. So
a look into another file that comes back is two; what files of other rooms do is none.
A **step** of rank 1 is all from the end of one step to the end of the next: what both ends
send there, but not the sums and values that travel by collectives.

Why the figures are steady:

* Over the in-process transport all roles' work for a call is done in the caller's thread,
  and only that thread is looked at.
* Time stands still: what is due by time (a tick, a line of the log) is due when said so.
* All other threads that wait for time to pass (clocks, heartbeats) are held where they
  woke, so that none of them does the caller's work, or has it do theirs.
* First calls are not counted. Of several the walk that was taken most often is meant.

``python -m tests.architecture.walks`` prints all walks.
"""

import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, final
from unittest import mock

import torch
from torch import nn

import paceline
from paceline.config import Async, JobConfig
from paceline.ids import COORDINATOR
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job.wiring import Wires
from paceline.messages.data import Push
from paceline.timing import SystemClock
from paceline.trainer.client import Courier
from paceline.trainer.group import collectives as group_tensors
from paceline.trainer.group import wire as wire
from paceline.trainer.seating import take_seat
from paceline.transport.streams import FrameChannel

SRC = f"{Path(paceline.__file__).parent}/"
SERVER = "server/"
NUM_WARM, NUM_WALKS = 2, 3
RUN, TRAINER = "walks", "trainer-0"

_WAIT = threading.Event.wait.__code__


class Figure(NamedTuple):
    """What was counted, in order."""

    name: str
    unit: str
    stops: tuple[str, ...]
    num: int

    def __str__(self) -> str:
        """The walk, a line for each stop."""
        lines = [f"{number:4} {stop}" for number, stop in enumerate(self.stops, 1)]
        return "\n".join([f"{self.name}: {self.num} {self.unit}", *lines])


class Walk(NamedTuple):
    """What one call has entered.

    Attributes:
        files: of ``src/paceline``, in the order of the first entry.
        at_push: files of the server, one after the other, while it had a push.
    """

    files: tuple[str, ...]
    at_push: tuple[str, ...]


# ------------------------------------------------------------ looking


@final
class Walking:
    """Looks at one thread; a profile function."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}  # in order
        self.at_push: list[str] = []
        self._below: list[str] = []  # the file of each frame; "" is none of ours
        self._push_depth = 0  # frames below the server's that has the push; 0: none has

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            path = path.removeprefix(SRC) if path.startswith(SRC) else ""
            self._below.append(path)
            if path:
                self.files[path] = None
                self._called(path, frame)
        elif event == "return" and self._below:
            self._below.pop()
            self._returned()

    def _called(self, path: str, frame: FrameType) -> None:
        if not self._push_depth and path.startswith(SERVER):
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount]
            if any(isinstance(frame.f_locals.get(name), Push) for name in names):
                self._push_depth = len(self._below)
        self._stand(path)

    def _returned(self) -> None:
        if len(self._below) < self._push_depth:
            self._push_depth = 0
        inside = self._below[self._push_depth - 1 :] if self._push_depth else []
        self._stand(next((p for p in reversed(inside) if p.startswith(SERVER)), ""))

    def _stand(self, path: str) -> None:
        if not self._push_depth or not path.startswith(SERVER):
            return
        if self.at_push[-1:] != [path]:
            self.at_push.append(path)


def walk(operation: Callable[[], object]) -> Walk:
    """Do something, and say what it has entered in this thread."""
    walking = Walking()
    before = sys.getprofile()
    sys.setprofile(walking)
    try:
        operation()
    finally:
        sys.setprofile(before)
    return Walk(tuple(walking.files), tuple(walking.at_push))


def usual(walks: list[Walk]) -> Walk:
    """The one that was taken most often, warm."""
    [(found, _)] = Counter(walks[NUM_WARM:]).most_common(1)
    return found


# ------------------------------------------------------------ standing still


@final
class Stillness:
    """Time that passes only when told to, and threads that wait for it."""

    def __init__(self) -> None:
        self._now_s = SystemClock().now_s()
        self._goes_on = threading.Event()
        self._goes_on.set()

    def advance(self, seconds: float) -> None:
        self._now_s += seconds

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Threads that are begun meanwhile can be held."""
        threading.setprofile(self._hold)
        try:
            yield
        finally:
            threading.setprofile(None)
            self._goes_on.set()

    @contextmanager
    def now(self) -> Iterator[None]:
        """Meanwhile time stands, and whoever waits for it is held when he wakes."""

        def now_s(_: SystemClock) -> float:
            return self._now_s

        self._goes_on.clear()
        try:
            with mock.patch.object(SystemClock, "now_s", now_s):
                yield
        finally:
            self._goes_on.set()

    def _hold(self, frame: FrameType, event: str, _: object) -> None:
        if event != "return" or frame.f_code is not _WAIT or self._goes_on.is_set():
            return
        if frame.f_locals["timeout"] is not None:  # no lock is held there
            sys.setprofile(None)
            self._goes_on.wait()
            sys.setprofile(self._hold)


@contextmanager
def job(folder: Path, still: Stillness, **options: Any) -> Iterator[EmbeddedJob]:
    """A job of one trainer, whose threads can be held; no cut comes between."""
    config = JobConfig(run=RUN, pace=Async(), cut_every_s=0.0, timeout_s=60.0, **options)
    with still.begun():
        found = EmbeddedJob(config, folder)
        try:
            yield found
        finally:
            found.close()


# ------------------------------------------------------------ the operations


def dense(session: paceline.Session) -> tuple[nn.Module, Any]:
    """A model of one block: there is one slot to be looked at."""
    model = nn.Linear(4, 2, bias=False)
    return model, session.share(model, torch.optim.SGD(model.parameters(), lr=0.1))


def pushes(session: paceline.Session, still: Stillness) -> tuple[Walk, Walk]:
    """One the coordinator is not told of, and one it is."""
    model, optimizer = dense(session)
    num, untold, told = NUM_WARM + NUM_WALKS, list[Walk](), list[Walk]()
    loop = iter(session.batches(torch.ones(16 * num, 4), 4, task_size=16 * num))
    batch = next(loop)  # waits for the first cut
    with still.now():
        for number in range(2 * num):
            optimizer.zero_grad()
            model(batch).sum().backward()
            if number >= num:
                still.advance(1.0)
            (untold if number < num else told).append(walk(optimizer.step))
            batch = next(loop)
    loop.close()  # type: ignore[attr-defined]
    return usual(untold), usual(told)


def lookups(session: paceline.Session, still: Stillness) -> Walk:
    rows, walks = session.embedding("rows", 8), list[Walk]()
    num = NUM_WARM + NUM_WALKS
    for ids in session.batches(torch.arange(4 * num), 4):
        with still.now():
            walks.append(walk(lambda ids=ids: rows(ids)))  # type: ignore[misc]
        if len(walks) == num:
            break
    return usual(walks)


def leases(session: paceline.Session, still: Stillness) -> Walk:
    """A batch is a task, and gradients of several are one step's."""
    dense(session)
    num, walks = NUM_WARM + NUM_WALKS, list[Walk]()
    loop = iter(session.batches(torch.ones(8 * num, 4), 4, task_size=4))
    next(loop)
    with still.now():
        for _ in range(num):
            walks.append(walk(lambda: next(loop)))
    loop.close()  # type: ignore[attr-defined]
    return usual(walks)


# ------------------------------------------------------------ a trainer of two processes


@final
class Collectives:
    """`torch.distributed` for threads of one process, as far as it is used."""

    def __init__(self, size: int) -> None:
        self._meeting = threading.Barrier(size)
        self._given: dict[int, torch.Tensor] = {}
        self._own = threading.local()

    def __getattr__(self, name: str) -> Any:  # FileStore: there is nobody to find
        return lambda *_, **__: None

    def is_initialized(self) -> bool:
        return False

    def init_process_group(self, *_: object, **options: Any) -> None:
        self._own.index = options["rank"]

    def reduce(self, total: torch.Tensor, holder: int, **_: object) -> "Collectives":
        return self._meet(total, holder, lambda given: total.copy_(sum(given.values())))

    def broadcast(self, value: torch.Tensor, holder: int, **_: object) -> "Collectives":
        return self._meet(value, None, lambda given: value.copy_(given[holder]))

    def wait(self) -> None:
        """It is there already."""

    def _meet(
        self, own: torch.Tensor, to: int | None, take: Callable[[Any], object]
    ) -> "Collectives":
        self._given[self._own.index] = own.clone()
        self._meeting.wait(60)
        if to in {None, self._own.index}:
            take(self._given)
        self._meeting.wait(60)
        return self


def messages(folder: Path) -> tuple[str, ...]:
    """What rank 1 of a trainer and its leader say for one step, in order."""
    ends, num = socket.socketpair(), NUM_WARM + NUM_WALKS
    at = {"0": 0, "1": 0}  # {thread: its step}
    said: list[list[str]] = [[] for _ in range(num + 1)]  # the last: when all is over
    failed: list[BaseException] = []
    send = FrameChannel.send

    def note(channel: Any, message: Any, buffers: Any = ()) -> None:
        name = threading.current_thread().name
        arrow = "leader ->" if name == "0" else "rank 1 ->"
        said[at[name]].append(f"{arrow} {type(message).__name__}")
        send(channel, message, buffers)

    def train(session: paceline.Session, name: str) -> None:
        model, optimizer = dense(session)
        for batch in session.batches(torch.ones(8 * num, 4), 4, task_size=8 * num):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            at[name] += 1

    def act() -> None:
        name = threading.current_thread().name
        end = ends[int(name)]
        meeting = str(folder / "meeting")
        place = wire.GroupPlace(TRAINER, int(name), 2, (end,), meeting, Async())
        wires = Wires(RUN, TRAINER, SystemClock())
        door = wires.to_coordinator(f"inproc:{RUN}/{COORDINATOR}")
        courier = Courier(door, wires.to_server())
        try:
            seat = take_seat(TRAINER, courier, wires.clock, 60.0, group=place)
            with paceline.Session(seat, folder) as session:
                train(session, name)
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failed.append(error)
        finally:
            end.close()

    with (
        mock.patch.object(FrameChannel, "send", note),
        mock.patch.object(group_tensors, "distributed", Collectives(2)),
    ):
        threads = [threading.Thread(target=act, name=name) for name in at]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    if failed:
        raise failed[0]
    [(found, _)] = Counter(map(tuple, said[NUM_WARM:num])).most_common(1)
    return found


# ------------------------------------------------------------ all of them


def measure(folder: Path) -> dict[str, Figure]:
    """All figures by name; jobs are made in a folder."""
    still = Stillness()
    with job(folder / "push", still) as found:
        untold, told = pushes(found.session(TRAINER), still)
    with job(folder / "rows", still) as found:
        rows = lookups(found.session(TRAINER), still)
    with job(folder / "lease", still) as found:
        lease = leases(found.session(TRAINER), still)
    with job(folder / "follower", still, ranks_per_trainer=2):
        said = messages(folder)
    figures = [
        Figure("push", "files", untold.files, len(untold.files)),
        Figure("told push", "files", told.files, len(told.files)),
        Figure("rows", "files", rows.files, len(rows.files)),
        Figure("lease", "files", lease.files, len(lease.files)),
        Figure("server", "changes of file", untold.at_push, len(untold.at_push) - 1),
        Figure("follower", "messages", said, len(said)),
    ]
    return {figure.name: figure for figure in figures}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for one in measure(Path(temporary)).values():
            sys.stdout.write(f"{one}\n\n")
