"""A trainer of several processes: the first is the trainer, the others are its forks.

::

    fork server --fork--> rank 0, leader of a process group --fork--> rank 1 ... k-1

To everybody else the trainer is its rank 0, in life and death: the kernel kills the other
ranks when it ends, and a rank that ends badly, or shows no life, ends rank 0 in the same
way. So the launcher, which kills what is left of a process group, has nothing to learn.

Ranks talk over socket pairs made before they are forked: there is no name to find or leak.
While there are enough GPUs, each rank sees one of its own first::

    four GPUs                     rank 0 sees 0,1,2,3   rank 1 sees 1,2,3,0 ...
    two trainers of two ranks     trainer-0: 0, 1       trainer-1: 2, 3
    more ranks than GPUs          they begin again: rank 4 sees 0,1,2,3

So ``"cuda"`` is another GPU in each rank of an unchanged script. A rank still sees all of
them: NCCL finds its ways between GPUs only among those that a process sees.

Waits: `wait_group`, for the other ranks to end. The main thread calls; a daemon thread of
rank 0 watches.
"""

import mmap
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import NoReturn, final

from paceline.errors import PREEMPTED_EXIT_CODE, UsageError
from paceline.launch.job import GROUP_INDEX, JobDir, read_place
from paceline.launch.processes.exits import describe_exit
from paceline.launch.processes.parent import die_with_parent, name_process
from paceline.trainer.group import GroupPlace

VISIBLE = "CUDA_VISIBLE_DEVICES"  # CUDA reads it once, when a process first uses a GPU
LOOK_S = 0.5
_BYTES = 8  # of a count of signs of life

_places: list[GroupPlace] = []  # this process's place, if its trainer has several
_processes: list["GroupProcesses"] = []  # in rank 0: the others


def group_place() -> GroupPlace | None:
    """Where this process stands in its trainer; None if it is all of it."""
    return _places[0] if _places else None


def open_group() -> None:
    """Become all ranks of a trainer, if the environment names several.

    Returns once in each of them, as if each had been started by itself.
    """
    place = read_place(os.environ)
    if place is None or place.size == 1:
        return
    size = place.size
    config = JobDir(place.job_dir).read_config()
    leader = os.getpid()
    store = place.sockets / f"{place.role}.{leader}"
    beats = mmap.mmap(-1, _BYTES * size)
    pairs = [socket.socketpair() for _ in range(size - 1)]
    channels = tuple(ours for ours, _ in pairs)
    leading = GroupPlace(place.role, 0, size, channels, str(store), config.pace)
    # Gloo and NCCL listen at ports: nobody outside of this machine reaches them.
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    pids = {}
    for index in range(1, size):
        pid = os.fork()
        if pid == 0:
            _become(place.role, index, leader)
            _choose_gpu(place.role, index, size)
            ours = pairs[index - 1][1]
            _close(end for pair in pairs for end in pair if end is not ours)
            _show_life(beats, index)
            _places.append(leading._replace(number=index, channels=(ours,)))
            return
        pids[index] = pid
    _close(theirs for _, theirs in pairs)
    os.environ[GROUP_INDEX] = "0"
    _choose_gpu(place.role, 0, size)
    processes = GroupProcesses(place.role, pids, beats, config.timeout_s)
    _processes.append(processes)
    _places.append(leading._replace(lost=processes.lost))
    processes.start()


def wait_group(status: int) -> int:
    """Before this process ends with ``status``: if all is well, the others end first."""
    if status == 0 and _processes:
        _processes[0].wait_ended()
    return status


@final
class GroupProcesses:
    """The other ranks, as rank 0 sees them."""

    def __init__(
        self, role: str, pids: dict[int, int], beats: mmap.mmap, timeout_s: float
    ) -> None:
        """They run.

        ``pids`` is {rank: a child of this process}; ``beats`` has a count for each rank,
        which grows while it lives; after ``timeout_s`` of silence it counts as dead.
        """
        self._role, self._pids, self._beats = role, pids, beats
        self._silence = Silence(pids, round(timeout_s / LOOK_S) + 1)
        self._pidfds = {os.pidfd_open(pid): index for index, pid in pids.items()}
        self._ended = {index: threading.Event() for index in pids}
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def wait_ended(self) -> None:
        """Wait until all have ended; one that ends badly ends this process, too."""
        for ended in self._ended.values():
            ended.wait()

    def lost(self, index: int) -> NoReturn:
        """A rank has hung up: this process ends as it did, if that was not well.

        Raises:
            UsageError: the rank has come to the end of its script.
        """
        self._ended[index].wait()
        raise UsageError(
            f"rank {index} of {self._role} has ended its script, rank 0 is still at work: "
            "every rank of a trainer makes the same calls of the session"
        )

    def _run(self) -> None:
        poll = select.poll()
        for pidfd in self._pidfds:
            poll.register(pidfd, select.POLLIN)
        while self._pidfds:
            for pidfd, _ in poll.poll(LOOK_S * 1000):
                poll.unregister(pidfd)
                self._reap(self._pidfds.pop(pidfd))
                os.close(pidfd)
            counts = memoryview(self._beats).cast("Q")
            silent = self._silence.look({i: counts[i] for i in self._pidfds.values()})
            if silent is not None:
                self._end(silent, "shows no sign of life", -signal.SIGKILL)

    def _reap(self, index: int) -> None:
        status = os.waitstatus_to_exitcode(os.waitpid(self._pids[index], 0)[1])
        if status != 0:
            self._end(index, f"ended with {describe_exit(status)}", status)
        self._ended[index].set()

    def _end(self, index: int, what: str, status: int) -> NoReturn:
        """End the trainer as a rank of it has ended."""
        text = f"rank {index} of {self._role} {what}: the trainer ends as a whole"
        print(text, file=sys.stderr, flush=True)  # noqa: T201  (into the trainer's log)
        if status == -signal.SIGTERM:
            os._exit(PREEMPTED_EXIT_CODE)
        if status < 0:
            os.kill(os.getpid(), -status)
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(status)


@final
class Silence:
    """Who has shown no life for so many looks; a watcher that slept itself counts none.

    Pure.
    """

    def __init__(self, indices: Mapping[int, object], looks: int) -> None:
        self._looks = looks
        self._seen = dict.fromkeys(indices, -1)  # {rank: its count}
        self._same = dict.fromkeys(indices, 0)  # {rank: looks since that has grown}

    def look(self, counts: Mapping[int, int]) -> int | None:
        """Take note of the counts; a rank that is silent for too long, or None."""
        for index, count in counts.items():
            self._same[index] = self._same[index] + 1 if count == self._seen[index] else 0
            self._seen[index] = count
            if self._same[index] >= self._looks:
                return index
        return None


def _become(role: str, index: int, leader: int) -> None:
    die_with_parent(leader, signal.SIGKILL)
    name_process(f"{role}.{index}")
    os.environ[GROUP_INDEX] = str(index)
    if "numpy" in sys.modules:  # forks share its random state otherwise
        sys.modules["numpy"].random.seed()


def _choose_gpu(role: str, index: int, size: int) -> None:
    """Let this rank's own GPU be its first, before its script uses one."""
    num_gpus = sys.modules["torch"].cuda.device_count() if "torch" in sys.modules else 0
    visible = own_gpu_first(os.environ.get(VISIBLE), num_gpus, turn_of(role, index, size))
    if visible is not None:
        os.environ[VISIBLE] = visible


def turn_of(role: str, index: int, size: int) -> int:
    """The how manieth of all ranks of a job the ``index``-th of a trainer is."""
    return int(role.rsplit("-", 1)[1]) * size + index


def own_gpu_first(visible: str | None, num_gpus: int, turn: int) -> str | None:
    """What `VISIBLE` has to be for a rank's own GPU to be the first of all.

    ``visible`` is what it is (None: not set), ``num_gpus`` how many torch finds with it.

    Returns:
        All of them, in turn; None where there is nothing to choose from.
    """
    names = [str(number) for number in range(num_gpus)]
    if visible is not None:
        names = [name.strip() for name in visible.split(",")][:num_gpus]
    if len(names) < 2:
        return None
    first = turn % len(names)
    return ",".join(names[first:] + names[:first])


def _show_life(beats: mmap.mmap, index: int) -> None:
    def beat() -> None:
        counts = memoryview(beats).cast("Q")
        while True:
            counts[index] += 1
            time.sleep(LOOK_S / 2)

    threading.Thread(target=beat, name="group-beat", daemon=True).start()


def _close(ends: Iterable[socket.socket]) -> None:
    for end in ends:
        end.close()
