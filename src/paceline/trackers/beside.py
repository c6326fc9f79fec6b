"""Trackers beside a run: a process of its own for each tool, which outlives nobody's wait.

::

    launcher   starts the children, and at its end tells them so, and gives them `END_S` for
               what is left
    child      waits for the run to begin, or to be over, which a short one is first; writes
               to the job's logs/tracker-0.log, and follows the job to its end

A child that fails, or is late, is told at the end of the run, and changes nothing in it.

Waits: the launcher, for the children's ends, `END_S` at most; a child, for its job.
"""

import contextlib
import importlib.util
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from paceline.errors import USAGE_EXIT_CODE, PacelineError, UsageError
from paceline.launch.job import JobDir
from paceline.machine import AS_BYTES, NO_LINK
from paceline.timing import Deadline, SystemClock
from paceline.trackers.following import Followed, TrackedJob
from paceline.trackers.mark import MarkFile
from paceline.trackers.target import Target, open_tracker, parse_target
from paceline.watch.summary import EXIT_CODES, Ending

END_S = 15.0
TELL_S = 1.0  # a wait that is longer is told
LOOK_EVERY_S = 0.2
OVER = b"over\n"  # what children hear at the end of the run
_QUIET = ("-W", "ignore::RuntimeWarning:runpy")  # the face of the room has loaded it, too
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | AS_BYTES | NO_LINK


@contextlib.contextmanager
def trackers_beside(
    job: JobDir, targets: Sequence[Target], say: Callable[[str], None]
) -> Iterator[None]:
    """Track a job, whose folder may not be there yet, while the ``with`` block runs.

    Raises:
        UsageError: a tool is not installed.
    """
    for target in targets:
        if importlib.util.find_spec(target.tool) is None:
            raise UsageError(
                f"--track {target}: {target.tool} is not installed: pip install "
                f"'paceline[{target.tool}]'"
            )
    children = [
        subprocess.Popen(
            [
                *(sys.executable, "-P", *_QUIET, "-m", "paceline.trackers.beside"),
                *(str(job.path), str(target), str(number), str(os.getpid())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the launcher's
        )
        for number, target in enumerate(targets)
    ]
    is_over = False
    try:
        yield
        is_over = True
    finally:
        for child in children:
            _tell_over(child, is_over=is_over)
        deadline = Deadline(SystemClock(), END_S)
        for number, (child, target) in enumerate(zip(children, targets, strict=True)):
            _wait_done(child, target, deadline, say)
            if is_over and (why := _why_not_done(child.returncode)) is not None:
                log = job.log(_log_name(number))
                command = f"paceline track {job.path} --to {target}"
                say(f"{target} {why} ({log}); what is missing is written by: {command}")


def wait_tracked(
    job: JobDir,
    target: Target,
    stop: threading.Event,
    say: Callable[[str], None],
    *,
    by_trainer: bool = False,
) -> Followed:
    """Write a job to a tool until it is over, or ``stop`` is set; ``say`` hears of it.

    Raises:
        UsageError: there is no job, the tool is not installed, or somebody else writes.
        StoreError: the tool fails, or a file of the job is damaged.
    """
    job.read_config()
    where = f"{_place(target)} {'by trainer' if by_trainer else ''}"
    mark = MarkFile(job, target.tool, where)
    following = TrackedJob(job, open_tracker(target), mark, SystemClock())
    with mark.hold(), contextlib.closing(following):
        goes_on = following.begin(by_trainer=by_trainer)
        say(f"{job.path.name} {'goes on' if goes_on else 'begins'} in {target}")
        followed = following.wait_over(stop)
    counts = f"{followed.numbers:,} numbers and {followed.happenings:,} happenings"
    if followed.status:
        how = f"the job is over ({followed.status})"
    elif stop.is_set():
        how = "stopped; the same command goes on"
    else:
        how = "the job runs no more and has no summary; once it is resumed, go on"
    say(f"{counts} written to {target}; {how}")
    return followed


def _tell_over(child: "subprocess.Popen[bytes]", *, is_over: bool) -> None:
    """Tell a child that the run is over; or end it, if there was none."""
    if not is_over:
        child.terminate()
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended
        if is_over:
            child.stdin.write(OVER)
        child.stdin.close()


def _wait_done(
    child: "subprocess.Popen[bytes]",
    target: Target,
    deadline: Deadline,
    say: Callable[[str], None],
) -> None:
    try:
        child.wait(min(TELL_S, deadline.remaining_s()))
    except subprocess.TimeoutExpired:
        left_s = deadline.remaining_s()
        if left_s > 0:
            say(f"waits until all is written to {target}, for {left_s:.0f} s at most")
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(left_s)


def _place(target: Target) -> str:
    """All that tells one place of a tool from another."""
    if target.tool == "tensorboard":
        return str(Path(target.where or target.tool).absolute())
    if target.tool == "mlflow":
        uri = target.where or os.environ.get("MLFLOW_TRACKING_URI", "")
        return uri if "://" in uri else f"{Path.cwd()} {uri}"
    return target.where


def _why_not_done(returncode: int | None) -> str | None:
    if returncode is None:
        return "is still being written to, by a process that goes on"
    return None if returncode == 0 else f"was left with exit code {returncode}"


def _log_name(number: int) -> str:
    return f"tracker-{number}"


def _main(job_dir: str, target: str, number: str, launcher: str) -> None:
    job = JobDir(Path(job_dir))
    if not _wait_run(job, int(launcher)):
        return
    log = os.open(job.log(_log_name(int(number))), _LOG_FLAGS, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def say(text: str) -> None:
        sys.stderr.write(f"paceline: {text}\n")

    try:
        wait_tracked(job, parse_target(target), threading.Event(), say)
    except UsageError as error:
        say(str(error))
        sys.exit(USAGE_EXIT_CODE)
    except PacelineError as error:
        say(f"{type(error).__name__}: {error}")
        sys.exit(EXIT_CODES[Ending.FAILED])


def _wait_run(job: JobDir, launcher: int) -> bool:
    """Wait until the launcher's run has begun, or is over; false: there was none."""
    while (run := job.read_run()) is None or run.pid != launcher:
        heard, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY_S)
        if heard:
            return sys.stdin.buffer.readline() == OVER
    return True


if __name__ == "__main__":
    _main(*sys.argv[1:])
