"""`paceline.run`: a job as processes of this machine, begun from Python.

What it takes it hands to what the command `paceline run` is made of, so both decide alike.

Waits: for the job to end. Any thread, which it holds until no process is left.
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, final

from paceline.cli.run import Goal, RunAsked, RunBeside, wait_asked
from paceline.config import Pace
from paceline.errors import IncompleteWarning, Interrupted, JobFailed, UsageError
from paceline.launch.carried import carry
from paceline.launch.job import UserScript, read_place
from paceline.launch.local import RunResult
from paceline.watch.progress import open_show
from paceline.watch.summary import Ending, Summary

_WORDS: Final = ("plugin", "track", "tee")
_TEXTS = ("trainers", "timeout", "first_batch", "checkpoint_every", "disk_wait")
_VALUES = ("ranks_per_trainer", "servers", "pace", "seed", "keep")


@final
class RunOptions(TypedDict, total=False):
    """The options of the command, as Python has them; seconds may be numbers.

    Attributes:
        trainers: processes that train: ``4``, or ``"2:6"`` for at least and at most.
        ranks_per_trainer: processes of a trainer, which act as one.
        servers: processes that hold the parameters.
        pace: how tightly trainers march: ``"ssp:3"``, or ``paceline.SSP(3)``.
        job_dir: the job's folder; left out, ``runs/<time>-<script>``.
        resume: go on with the job in ``job_dir``; options left out are as they were.
        resume_if_begun: go on if there is a job in ``job_dir``, else begin one there.
        begin_anew: with ``resume``, from the start where the job's checkpoints are gone.
        seed: of row initialization.
        timeout: silence that counts as death: ``10.0``, ``"10s"``.
        first_batch: what a process's first batch may take.
        checkpoint_every: seconds between checkpoints, ``"1000steps"`` or ``"off"``.
        keep: checkpoints that are kept.
        checkpoints: folder or URL of checkpoints.
        disk_wait: how long to wait for space on a full disk.
        plugin: modules or files that servers import.
        track: trackers that its numbers are written to: ``["tensorboard:logs"]``.
        dashboard: show the job in the browser while it runs.
        tee: roles whose output is shown here, too: ``["trainer-0"]``.
    """

    trainers: int | str
    ranks_per_trainer: int
    servers: int
    pace: str | Pace
    job_dir: str | os.PathLike[str]
    resume: bool
    resume_if_begun: bool
    begin_anew: bool
    seed: int
    timeout: float | str
    first_batch: float | str
    checkpoint_every: float | str
    keep: int
    checkpoints: str | os.PathLike[str]
    disk_wait: float | str
    plugin: Sequence[str]
    track: Sequence[str]
    dashboard: bool
    tee: Sequence[str]


def run(
    script: str | os.PathLike[str] | Callable[..., object],
    *,
    args: Sequence[object] = (),
    is_module: bool = False,
    **options: Unpack[RunOptions],
) -> Summary:
    """Train with several processes on this machine, as the command `paceline run` does.

    Options mean what they mean there, and have the same defaults.
    Progress and what happens is said on standard error, or in the output of a notebook's
    cell. Any thread may call; it comes back when no process of the job is left. In the main
    thread Ctrl-C (a notebook's interrupt) saves and ends the job, twice it ends at once.
    Other machines join jobs of the command alone.

    Args:
        script: the training script, or with ``is_module`` a module's name. Or a function,
            which each trainer calls: it does what a script would, begins with
            `paceline.connect`, and comes to trainers as it is now, with the variables of
            the script or notebook that it uses (1 MiB at most); what it imports, trainers
            import. What it returns is not told. Needs ``pip install
            'paceline[notebook]'``.
        args: its own arguments; a script's as text.
        is_module: ``script`` is the name of a module, as for ``python -m``.
        options: those of `RunOptions`.

    Returns:
        What ``summary.json`` in the job's folder says; a notebook shows it as a table. An
        `IncompleteWarning` has told if tasks were given up (`ending` is ``"gave up"``).

    Raises:
        UsageError: what is asked for cannot be; nothing was begun. So it is in a trainer.
        StoreError: the job folder or the place of checkpoints cannot be written.
        JobFailed: the job could not go on; its notes say what else there is to know.
        SystemExit: it was interrupted, with code 75; a `KeyboardInterrupt` as well.
    """
    if (place := read_place(os.environ)) is not None:
        raise UsageError(
            f"paceline.run starts a job, and this process is {place.role} of one: call it "
            'where only the script that is started by hand comes to: if __name__ == "'
            '__main__"; or name another script'
        )
    _require_words(args=args, **{n: options[n] for n in _WORDS if n in options})
    user_script = _script(script, args, is_module=is_module)
    asked = _asked(user_script, options)
    return _summary_of(wait_asked(asked, partial(open_show, sys.stderr)))


def _asked(script: UserScript, options: RunOptions) -> RunAsked:
    """What the command would have made of it.

    Raises:
        UsageError: there is no such option.
    """
    pace = options.get("pace", "")
    if not isinstance(pace, str | Pace):
        raise UsageError(f"paceline.run: expected a pace, as 'ssp:3', got pace={pace!r}")
    unknown = sorted(set(options) - set(RunOptions.__annotations__))
    if unknown:
        raise UsageError(
            f"paceline.run: expected options of paceline run, got {unknown}; what the "
            f"script or function is called with is args=[...]"
        )
    job_dir = options.get("job_dir")
    goal = Goal(
        None if job_dir is None else Path(job_dir),
        options.get("resume", False),
        options.get("resume_if_begun", False),
        options.get("begin_anew", False),
        _text(options.get("checkpoints")),
    )
    said = {
        **{name: _text(options.get(name)) for name in _TEXTS},
        **{name: options.get(name) for name in _VALUES},
    }
    beside = RunBeside(
        options.get("track", ()), options.get("dashboard", False), options.get("tee", ())
    )
    return RunAsked(script, said, goal, options.get("plugin", ()), beside)


def _require_words(**given: object) -> None:
    """Refuse what would be taken apart into letters."""
    for name, words in given.items():
        if isinstance(words, str | bytes) or not isinstance(words, Sequence):
            raise UsageError(
                f"paceline.run: expected a list for {name}, as [{words!r}], got {words!r}"
            )


def _script(
    script: str | os.PathLike[str] | Callable[..., object],
    args: Sequence[object],
    *,
    is_module: bool,
) -> UserScript:
    if isinstance(script, str | os.PathLike):
        return UserScript(os.fspath(script), tuple(map(str, args)), is_module)
    if is_module:
        raise UsageError("is_module says that a script is a module's name; got a function")
    if not callable(script):
        raise UsageError(f"paceline.run: expected a script or a function, got {script!r}")
    return carry(script, args)


def _text(value: Any) -> str | None:  # noqa: ANN401  (a number, a path or a text)
    return None if value is None else str(value)


def _summary_of(result: RunResult) -> Summary:
    """What the call comes back with, or how it ends.

    Raises:
        JobFailed: so has the job.
        Interrupted: somebody has ended it.
    """
    summary, verdict, said = result
    if verdict.ending is Ending.FAILED:
        failed = JobFailed(verdict.reason)
        for text in said:
            failed.add_note(f"paceline: {text}")
        raise failed
    for text in said:
        print(f"paceline: {text}", file=sys.stderr)
    if verdict.ending is Ending.INTERRUPTED:
        raise Interrupted(verdict.reason)
    if verdict.ending is Ending.GAVE_UP:
        warnings.warn(verdict.reason, IncompleteWarning, stacklevel=3)
    return summary
