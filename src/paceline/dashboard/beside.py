"""A dashboard beside a run: a process of its own, which ends with the launcher.

::

    launcher   takes a port, starts the child with it, writes the token, and hangs up at
               the run's end, or when it dies
    child      serves; hears that nobody is there any more, shows the end, and ends

Waits: the launcher, for the child's end, `CLOSE_S` at most; then it is killed.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from paceline.dashboard.door import PageDoor
from paceline.dashboard.observer import EVERY_S, Observer
from paceline.dashboard.web import Opened, open_dashboard, serve
from paceline.launch.job import JobDir
from paceline.timing import Clock, Deadline, SystemClock

CLOSE_S = 8.0
TELL_S = 1.0  # a wait that is longer is told
SHOW_END_S = 2.0  # how long the child looks for the job's summary
LOOK_S = 0.05
_QUIET = ("-W", "ignore::RuntimeWarning:runpy")  # the face of the room has loaded it, too


@contextlib.contextmanager
def dashboard_beside(job: JobDir, say: Callable[[str], None]) -> Iterator[None]:
    """Show a job, whose folder may not be there yet, while the ``with`` block runs.

    Raises:
        UsageError: ``paceline[dashboard]`` is not installed.
    """
    opened = open_dashboard(0)
    with opened.socket as listening:
        child = subprocess.Popen(
            [
                *(sys.executable, "-P", *_QUIET, "-m", "paceline.dashboard.beside"),
                *(str(listening.fileno()), str(job.path.absolute())),
            ],
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(),),
            start_new_session=True,  # Ctrl-C is the launcher's
        )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already, which is told
        child.stdin.write(opened.door.token.encode() + b"\n")
        child.stdin.flush()
    say(f"{job.path.name} is shown at {opened.door.url}")
    try:
        yield
    finally:
        was_there = child.poll() is None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        _wait_shown(child, say)
        if not was_there:
            say(f"the dashboard had ended by itself, with exit code {child.returncode}")


def _wait_shown(child: "subprocess.Popen[bytes]", say: Callable[[str], None]) -> None:
    try:
        child.wait(TELL_S)
    except subprocess.TimeoutExpired:
        left_s = CLOSE_S - TELL_S
        say(f"waits until the dashboard has shown the end, for {left_s:.0f} s at most")
        try:
            child.wait(left_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _serve_until_left(descriptor: int, job: JobDir, clock: Clock) -> None:
    token = sys.stdin.readline().strip()
    listening = socket.socket(fileno=descriptor)
    door = PageDoor(listening.getsockname()[1], token)
    observer = Observer(job, job.path.name, clock)

    def end_when_left() -> None:
        sys.stdin.read()  # until the launcher hangs up
        deadline = Deadline(clock, SHOW_END_S)
        left, pause = threading.Event(), LOOK_S
        while not (observer.is_over or deadline.is_over()):
            left.wait(pause)
        left.wait(EVERY_S)  # the last beat goes out
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_when_left, name="paceline-left", daemon=True).start()
    observer.start()
    try:
        serve(Opened(listening, door), observer)
    finally:
        observer.close()


if __name__ == "__main__":
    _serve_until_left(int(sys.argv[1]), JobDir(Path(sys.argv[2])), SystemClock())
