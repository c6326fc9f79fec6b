"""A job of a script that was started by itself, as its user sees it.

What `paceline run` has around a job, `OwnJob` has around an embedded one: a line at once
that names its folder, progress, an address for `paceline status` and `paceline pace`, an
end in good order when the user or an exception ends the script, a summary. All of it goes
to standard error: standard output is the script's. The terminal is the script's, too: so
progress is a line now and then, and never a bar, which its prints would tear.

::

    main thread    the script; `end`, when it is over
    own-job        shows how the job stands, when that has changed; hears of Ctrl-C

In an interactive session Ctrl-C is Python's: it ends what is running, and the job goes on.

Waits: `end`, for servers and for the last cut, with bounds.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO, final

from rich.console import Console

from paceline.config import JobConfig
from paceline.errors import Interrupted, PacelineError, UsageError, describe_error
from paceline.launch.embedded import EmbeddedJob
from paceline.launch.job import JobDir, UserScript, resume_command
from paceline.launch.local import LocalRun, describe_run
from paceline.launch.parting import TOLD, Act, Parting
from paceline.launch.processes import Signals, send_to_main
from paceline.launch.supervise import LEAVE_S, NOT_SAVED, SAVE_S
from paceline.machine import lacking
from paceline.messages.watching import JobStatus
from paceline.params.rows import modules_of_rules
from paceline.timing import SystemClock
from paceline.watch.progress import Lines, Troubles
from paceline.watch.summary import EXIT_CODES, Ending, Verdict, tell_ending
from paceline.watch.table import summary_table

LOOK_EVERY_S = 0.5
AGAIN_S = 0.02
SILENT_S = 2.0  # how long the last cut may take without a word
WHY = "the user has asked the script to end"
INTERRUPTED_CODE = EXIT_CODES[Ending.INTERRUPTED]


@final
class OwnJob:
    """One trainer, one server, in lockstep, in the process of the script."""

    def __init__(
        self,
        config: JobConfig,
        folder: Path,
        script: UserScript,
        output: TextIO,
        end_process: Callable[[int], object],
        *,
        is_quiet: bool = False,
        is_interactive: bool = False,
    ) -> None:
        """Start the job in a folder and join it.

        ``script`` goes on with it, in `paceline run`; ``end_process`` ends the process with
        a code, when its script does not leave. ``is_quiet``: say only what goes wrong;
        ``is_interactive``: somebody types what is to be done next.

        Raises:
            UsageError: the folder belongs to another job.
        """
        self._clock, self._pid = SystemClock(), os.getpid()
        self._script, self._is_quiet = script, is_quiet
        self._output, self._lines = output, Lines(output, "paceline: ")
        self._end_process = end_process
        self._parting, self._troubles = Parting(), Troubles()
        self._closing = threading.Lock()  # held by whoever ends the job
        self._status: JobStatus | None = None
        self._is_ending = self._is_over = False
        self._plugins: list[str] = []  # as they are kept
        self._goes_on = False  # a run that is resumed finds what the script has left undone
        if not is_quiet:
            run = LocalRun(config, script, JobDir(folder))
            self._say(describe_run(run, Path.cwd()))
        self.job = EmbeddedJob(
            config, folder, script=script.named, arguments=script.arguments
        )
        try:
            self.job.listen()
        except (OSError, UsageError) as error:
            self._say(f"paceline status cannot look at this job while it runs: {error}")
        try:
            self.session = self.job.session("trainer-0")
        except BaseException as error:
            self.job.close(Verdict(Ending.FAILED, describe_error(error)))
            raise
        self._membership = self.session.membership
        is_main = threading.current_thread() is threading.main_thread()
        caught = to_catch() if is_main and not is_interactive else []
        self._signals = Signals(caught, self._came)
        if is_interactive:
            self._membership.calls.around = self._held_off
        self._thread = threading.Thread(target=self._watch, name="own-job", daemon=True)
        self._thread.start()

    def end(self, failure: BaseException | None) -> Verdict | None:
        """The script is over: end the job, and say how it has ended. May be repeated.

        ``failure`` is what the script ended with, if that is known.

        Returns:
            How it ended; None in a forked process, which has no job.
        """
        if os.getpid() != self._pid:
            return None
        if self._is_over:
            return self.job.verdict
        self._is_ending = True
        with self._closing:
            if self.job.summary is None:
                self._close(failure)
        self._is_over = True
        self._tell_end()  # before: Ctrl-C is no exception in the middle of it
        self._signals.hang_up()
        self._thread.join()
        self._signals.close()
        return self.job.verdict

    # ------------------------------------------------------------ the end

    def _close(self, failure: BaseException | None) -> None:
        """End the job, by what the script ended with."""
        if failure is not None and not isinstance(failure, KeyboardInterrupt):
            said = (str(failure).strip().splitlines() or [""])[0]
            name = type(failure).__name__
            self._save(Ending.FAILED, f"{name}: {said}" if said else name, failure)
        elif failure is not None or self._membership.calls.is_interrupted:
            self._save(Ending.INTERRUPTED, "interrupted", failure)
        else:
            self.job.close()
            queue = self.job.status().queue
            self._goes_on = bool(queue.todo or queue.pending)

    def _save(self, ending: Ending, why: str, failure: BaseException | None) -> None:
        """End a job whose script did not come to its end: as if its trainer had gone."""
        if self._is_full():
            pass  # nobody can leave, as that would be journalled
        elif failure is None or isinstance(failure, Interrupted):
            self.session.close()
        else:
            self._membership.abandon()
        saved = self._saved()
        self.job.close(Verdict(ending, why if saved in why else f"{why}; {saved}"))

    def _saved(self) -> str:
        """What was saved of what the script has done."""
        status = self.job.wait_saved(SILENT_S)
        if status is None and not self._is_full() and self.job.status().error is None:
            self._say(f"a checkpoint is taken (within {SAVE_S:g} s); Ctrl-C, and all ends")
            status = self.job.wait_saved(SAVE_S - SILENT_S)
        now = self.job.status()
        self._goes_on = self._may_go_on(now)
        if status is not None and self._goes_on:
            return f"saved as cut {status.cut}"
        if status is not None and self.job.has_cut():
            return "nothing was trained yet"
        if status is not None:
            return "nothing was shared yet, and nothing is saved"
        why = "the events say why" if now.trouble is None else now.trouble.text
        if self._is_full():
            return why
        return now.error or f"no cut could be taken in {SAVE_S:g} s; {why}"

    def _may_go_on(self, status: JobStatus | None) -> bool:
        """Whether a resumed run finds something, or could not even begin to have it."""
        if status is None or status.trouble is not None:
            return status is not None or self.job.has_cut()
        has_begun = status.cut or status.records or status.tasks_done  # cut 0: as it began
        return bool(has_begun) and self.job.has_cut()

    def _is_full(self) -> bool:
        """Whether the disk of the job folder takes nothing."""
        trouble = self.job.status().trouble
        return trouble is not None and trouble.kind == "journal"

    def _tell_end(self) -> None:
        verdict, summary = self.job.verdict, self.job.summary
        assert verdict is not None
        assert summary is not None
        if not self._is_quiet:
            with contextlib.suppress(OSError, ValueError):
                Console(file=self._output, emoji=False).print(summary_table(summary))
        is_well = verdict.ending is Ending.TRAINED
        if is_well or (self._is_quiet and not verdict.exit_code):
            return
        self._say(tell_ending(verdict.ending.value, verdict.reason))
        if self._goes_on:
            script = self._script
            path, arguments = shown(self.job.path), script.arguments
            command = resume_command(path, script.named, arguments, _plugins())
            where = ", on Linux" if lacking() else ""
            self._say(f"go on with{where}: {command}")

    # ------------------------------------------------------------ while the script runs

    def _came(self, frame: FrameType | None) -> None:
        """A signal has come; the main thread is at ``frame`` of the script, or of ours."""
        if self._is_over:
            return
        membership = self._membership
        self._interrupt()
        if self._is_ending or membership.calls.was_told:
            return
        if membership.is_idle() and not is_ours(frame):
            membership.calls.was_told = True
            raise Interrupted(WHY)

    def _interrupt(self) -> None:
        """The script is its whole job: it leaves its loop by `Interrupted`."""
        self._membership.calls.is_interrupted = True
        self._membership.leave_soon(WHY)

    @contextlib.contextmanager
    def _held_off(self) -> Iterator[None]:
        """In an interactive session Ctrl-C is Python's, but never within a call of ours.

        For the time of a loop or an evaluation; whoever runs cells sets it for each.
        """
        calls = self._membership.calls
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT)
        if not is_main or before != signal.default_int_handler:
            yield
            return

        def came(number: int, frame: FrameType | None) -> None:
            del number
            calls.is_late = is_ours(frame)  # then it comes again, at the next batch at last
            if not calls.is_late:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, came)
        try:
            yield
        finally:
            late, calls.is_late = calls.is_late, False
            if signal.getsignal(signal.SIGINT) == came:
                with contextlib.suppress(ValueError):  # a loop that another thread lets go
                    signal.signal(signal.SIGINT, before)
        if late:
            raise KeyboardInterrupt

    def _watch(self) -> None:
        while True:
            calls = self._membership.calls
            came = self._signals.wait(AGAIN_S if calls.is_late else LOOK_EVERY_S)
            if self._is_over:
                return
            if calls.is_late:
                send_to_main(signal.SIGINT)
            now = self._clock.now_s()
            try:
                if came:
                    is_stuck = self._is_ending and self._is_full()
                    if (act := self._parting.asked(now, is_stuck=is_stuck)) is not None:
                        self._do(act)
                held = not self._is_ending and not self._membership.is_idle()
                told = calls.was_told or self._is_ending
                act = self._parting.passed(
                    now, is_held=held, was_told=told, is_full=held and self._is_full()
                )
                if act is not None:
                    self._do(act)
                self._show(now)
            except PacelineError:  # the job is ending, and answers no more
                continue

    def _do(self, act: Act) -> None:
        if act == "ask to leave":
            self._say(NOT_SAVED if self._is_full() else TOLD)
            self._interrupt()
        elif act == "knock":
            self._signals.knock()
        elif act == "give up":
            if not self._is_full():
                self._say(f"the script has not left its loop within {LEAVE_S:g} s")
            self._is_ending = True
            try:
                with self._closing:
                    if self.job.summary is None:
                        self._save(Ending.INTERRUPTED, "interrupted", TimeoutError())
                self._tell_end()
            finally:
                self._end_process(INTERRUPTED_CODE)
        else:
            try:
                self.job.leave_as_is(self._status)
                self._goes_on = self._may_go_on(self._status)
                self._tell_end()
            finally:
                os._exit(INTERRUPTED_CODE)

    def _show(self, now: float) -> None:
        """Show how the job stands, if that has changed, and what cannot be written."""
        before, self._status = self._status, self.job.status()
        for said in self._troubles.note(self._status.trouble, now):
            self._say(said)
        is_shown = not self._is_quiet and not self._is_ending
        if is_shown and _moved(self._status) != _moved(before):
            with contextlib.suppress(OSError, ValueError):
                self._lines.show(self._status, 0, now)
        if (plugins := _plugins()) != self._plugins and not self._is_ending:
            self.job.keep_plugins(plugins)
            self._plugins = plugins

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            self._lines.say(text)


def _plugins() -> list[str]:
    """A server of a run is not in the script's process: what it imports is named."""
    return [name for name in modules_of_rules() if name != "__main__"]


def _moved(status: JobStatus | None) -> object:
    return None if status is None else (status.records, status.queue, status.state)


def to_catch() -> list[signal.Signals]:
    """Signals that ask for the end, where neither script nor shell wants them otherwise."""
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    if hasattr(signal, "SIGHUP"):  # Windows closes a terminal otherwise
        usual[signal.SIGHUP] = signal.SIG_DFL
    return [
        number for number, before in usual.items() if signal.getsignal(number) == before
    ]


def is_ours(frame: FrameType | None) -> bool:
    """Whether paceline is at work: what is raised there would leave things half done."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("paceline."):
            return True
        frame = frame.f_back
    return False


def shown(path: Path) -> Path:
    """A path as a user would write it here."""
    path, here = path.absolute(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
