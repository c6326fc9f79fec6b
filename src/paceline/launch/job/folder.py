"""The job folder: everything of a run lies in it, and what lies where.

::

    runs/20260301-101500-train/
      job.json         `JobConfig` and the script: written first, by whom the job is
      journal.sqlite   the coordinator's journal
      checkpoints/     cuts, unless the job keeps them elsewhere
      logs/            <role>.log: standard output and error of each process
      events.jsonl     one line per happening; of a long job, the last ones
      events.old.jsonl then, those before
      trackers/        how far tools that keep runs have been written to
      run.json         while the job runs: where its coordinator listens
      status.json      after it: the coordinator's last word
      summary.json     after it, written last
      secret           while the job runs over TCP: what its roles prove to each other
      launcher.lock    held by the launcher that runs the job

A folder belongs to one job for ever, and to one launcher at a time: making ``job.json``
anew is refused but for a resumed job, whose last launcher has gone. The sockets lie
elsewhere, since a path of a Unix socket has at most 107 bytes.

Waits: for the file system only.
"""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias, final

import msgspec
from msgspec import structs

from paceline.config import JobConfig
from paceline.errors import StoreError, UsageError, why_full
from paceline.events import older
from paceline.launch.job.commands import resume_command
from paceline.launch.job.files import (
    read_json,
    remove_secret,
    require_files,
    require_folders,
    require_space,
    require_utf8,
    write_new,
    write_whole,
    writing,
)
from paceline.launch.job.sockets import remove_left
from paceline.machine import AS_BYTES, NO_LINK, hold_file, open_folder
from paceline.messages.watching import JobStatus
from paceline.store.journal import FORMAT

RUNS = Path("runs")  # where job folders go, unless a user names one
_ENDED_REMEDY = "it says how the last run ended, and --resume does without: remove it"
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | AS_BYTES | NO_LINK
_Say: TypeAlias = Callable[[str], None]
_Words: TypeAlias = Sequence[str]
_JOURNAL_ENDS = ("", "-wal", "-journal", ".lock")  # SQLite's own, and the opener's


class RunFile(msgspec.Struct, frozen=True):
    """What ``run.json`` says while a job runs."""

    run: str
    coordinator: str
    sockets: str
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]  # of the launcher
    is_plain: bool = False  # between machines without TLS
    door: str = ""  # where machines join: 10.0.0.1:7070; empty: none may


class _Written(msgspec.Struct, frozen=True):
    """By which version ``job.json`` was written, the first did not say; what is run."""

    journal_format: int = 2
    script: str = "SCRIPT"
    arguments: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # others that each run names anew


@final
class JobDir:
    """The paths of a job folder, and its small files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config = self.path / "job.json"
        self.journal = self.path / "journal.sqlite"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self.events = self.path / "events.jsonl"
        self.run_file = self.path / "run.json"
        self.secret = self.path / "secret"
        self.status = self.path / "status.json"
        self.summary = self.path / "summary.json"
        self.failpoints = self.path / "failpoints"
        self.picture = self.path / "run.png"
        self._held: int | None = None  # the folder, open while it is held

    def cuts_of(self, config: JobConfig) -> str:
        """Where a job's cuts lie: a folder, or any URL of fsspec."""
        return config.checkpoints or str(self.checkpoints)

    def log(self, role: str) -> Path:
        """Where a role's standard output and error go."""
        return self.logs / f"{role}.log"

    def failure(self, role: str) -> Path:
        """Where a script that fails leaves what it failed with, until it is read."""
        return self.logs / f"{role}.failure.json"

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Be the folder's only launcher; the hold falls with its process.

        Raises:
            UsageError: its job is running, the folder cannot be made, or something in it is
                not of the kind that it should be.
            StoreFull: there is no space for it.
        """
        path = self.path / "launcher.lock"
        with writing(self.path, UsageError):
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, _LOCK_FLAGS, 0o600)
        try:
            hold_file(descriptor)
            self._held = open_folder(self.path)
        except BlockingIOError:
            raise UsageError(
                f"{self.path}: its job is running{self._holder()}; end it first, or name "
                "another folder with --job-dir"
            ) from None
        except OSError as error:
            raise UsageError(f"{self.path} cannot be held by one job: {error}") from error
        else:
            self._check_kinds()
            yield
        finally:
            os.close(descriptor)
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def is_another(self) -> bool:
        """Whether what lies at the path is not the folder that is held: it was removed.

        A folder that is open keeps its number: no other has it meanwhile.
        """
        if self._held is None:
            return False
        try:
            return not os.path.samestat(os.fstat(self._held), self.path.stat())
        except OSError:  # nothing lies there
            return False

    def forget_secret(self) -> None:
        """Remove the run's secret, which has ended; not that of another's run."""
        if not self.is_another():
            remove_secret(self.secret)

    def _holder(self) -> str:
        """Who runs the job, and since when, if that can be read."""
        with contextlib.suppress(StoreError, OSError):
            if (run := self.read_run()) is not None:
                began_s = self.run_file.stat().st_mtime
                moment = datetime.fromtimestamp(began_s, tz=UTC).astimezone()
                return f" (process {run.pid}, since {moment:%Y-%m-%d %H:%M:%S})"
        return ""

    def claim(
        self, config: JobConfig, script: str, arguments: _Words = (), options: _Words = ()
    ) -> None:
        """Make the folder and write ``job.json``: the folder is this job's from now on.

        ``options`` are kept for the command that goes on with it, which names them anew.

        Raises:
            UsageError: it belongs to another job, or cannot be made.
            StoreFull: there is no space for it.
        """
        if self.journal.exists() or self.config.exists():
            raise UsageError(_taken(self))
        self._check_names(script)
        fields = _job_fields(config, script, arguments, options)
        with writing(self.path, UsageError):
            self.logs.mkdir(parents=True, exist_ok=True)
            if not config.checkpoints:
                self.checkpoints.mkdir(exist_ok=True)
            require_space(self.path)
            try:
                write_new(self.config, fields)
            except FileExistsError:
                raise UsageError(_taken(self)) from None

    def claim_again(
        self,
        config: JobConfig,
        script: str,
        say: _Say,
        arguments: _Words = (),
        options: _Words = (),
    ) -> None:
        """Let a new run go on where the last one ended; by whom the folder is held.

        Sockets and secret of a run that was killed are removed; ``job.json`` says how this
        one is; ``say`` hears what was mended, and what was left alone.

        Raises:
            UsageError: the folder holds no job, or its journal is of another version.
            StoreFull: there is no space to go on.
        """
        self._check_names(script)
        self.read_config()
        again = resume_command(self.path, script, arguments, config.plugins, options)
        self._check_journal(again)
        require_space(self.path)
        self._forget_last_run(say)
        remove_secret(self.secret)
        self.summary.unlink(missing_ok=True)
        self.status.unlink(missing_ok=True)
        with writing(self.path):
            self.logs.mkdir(exist_ok=True)
            write_whole(self.config, _job_fields(config, script, arguments, options))

    def keep_options(self, options: _Words) -> None:
        """Let the command that goes on with the job name these; by whom it is held.

        Raises:
            StoreFull: there is no space for it.
        """
        fields = read_json(self.config, dict[str, object])
        if fields is not None and not self.is_another():
            with writing(self.path):
                write_whole(self.config, {**fields, "options": options})

    def _forget_last_run(self, say: Callable[[str], None]) -> None:
        """Remove what tells where the last run's coordinator listened; nobody runs."""
        try:
            run = read_json(self.run_file, RunFile)
        except StoreError as error:
            say(f"paceline: {error}; it is removed, since no job runs here")
            run = None
        kept = None if run is None else remove_left(Path(run.sockets))
        if run is not None and kept is not None:
            say(
                f"paceline: {self.run_file} names {run.sockets} as the folder of the last "
                f"run's sockets, which is left as it is: {kept}"
            )
        self.run_file.unlink(missing_ok=True)

    def _check_names(self, script: str) -> None:
        require_utf8("the job folder", str(self.path))
        require_utf8("the script", script)

    def _check_kinds(self) -> None:
        """Let files be files, and folders folders, where they are there."""
        journal = [self.journal.with_name(self.journal.name + end) for end in _JOURNAL_ENDS]
        small = (self.config, self.run_file, self.status, self.summary, self.secret)
        require_folders([self.logs, self.checkpoints, self.failpoints])
        require_files([*small, *journal, self.events, older(self.events)])
        require_files(self.logs.glob("*.log"))
        require_files(self.logs.glob("*.failure.json"))

    def _check_journal(self, again: str) -> None:
        """Refuse a journal that this version cannot read, with the way around it."""
        written = read_json(self.config, _Written)
        assert written is not None, "it was read a moment ago"
        if written.journal_format == FORMAT or not self.journal.exists():
            return
        away = self.path / f"journal-format-{written.journal_format}"
        quoted = [shlex.quote(str(path)) for path in (away, self.journal)]
        then = "\n" if again.startswith("paceline.run(") else " && "  # no shell's
        raise UsageError(
            f"{self.journal} is of format {written.journal_format}, and this paceline "
            f"reads format {FORMAT}: resume with the version that wrote it, or go on from "
            f"the last checkpoint, which trains again what came behind it:\n"
            f"mkdir {quoted[0]} && mv {quoted[1]}* {quoted[0]}{then}"
            f"{again}"
        )

    def read_config(self) -> JobConfig:
        """The job's description.

        Raises:
            UsageError: the folder holds no job.
            StoreError: ``job.json`` is damaged.
        """
        remedy = "put a copy of it back, or begin a new job in another folder"
        config = read_json(self.config, JobConfig, remedy)
        if config is None:
            raise UsageError(f"{self.path} holds no job: it has no {self.config.name}")
        return config

    def read_script(self) -> str:
        """The path of the script that the job was started with last."""
        return (read_json(self.config, _Written) or _Written()).script or "SCRIPT"

    def resume_command(self) -> str:
        """The command that goes on with the job as it was started last."""
        ran = read_json(self.config, _Written) or _Written()
        script, named = self.read_script(), (ran.plugins, ran.options)
        return resume_command(self.path, script, ran.arguments, *named)

    def read_run(self) -> RunFile | None:
        """Where the running job's coordinator listens; None when none is running."""
        return read_json(self.run_file, RunFile, "if no job runs there, --resume mends it")

    def read_status(self) -> JobStatus | None:
        """The coordinator's last word about an ended job, if there is one."""
        return read_json(self.status, JobStatus, _ENDED_REMEDY)

    def read_summary(self) -> dict[str, object] | None:
        """The summary of an ended job; None while it runs."""
        summary = read_json(self.summary, dict[str, object], _ENDED_REMEDY)
        if summary is not None and not isinstance(summary.get("status"), str):
            raise StoreError(f"{self.summary} tells no status; {_ENDED_REMEDY}")
        return summary

    def write_run(self, run: RunFile) -> None:
        """Tell observers where the coordinator listens.

        Raises:
            StoreFull: there is no space for it.
        """
        with writing(self.path):
            write_whole(self.run_file, run)

    def write_door(self, address: str) -> None:
        """Tell machines that see this folder where they join the job, if it runs.

        Raises:
            StoreFull: there is no space for it.
        """
        run = self.read_run()
        if run is not None:
            self.write_run(structs.replace(run, door=address))

    def write_end(self, status: JobStatus | None, summary: dict[str, object]) -> str | None:
        """Keep how the job ended; nobody listens any more.

        Returns:
            Why that cannot be kept; None if it is. Never an error: who is told how the run
            ended must be told, whatever the disk says.
        """
        if self.is_another():
            return (
                f"{self.summary} is not this run's, and stays as it is: the folder that "
                "the run began in was removed, and another one has its name by now"
            )
        with contextlib.suppress(OSError):  # first: it needs no space
            self.run_file.unlink(missing_ok=True)
        try:
            if status is not None:
                write_whole(self.status, status)
            write_whole(self.summary, summary)
        except OSError as error:
            why = why_full(error) or str(error)
            return f"{self.summary} could not be written: {why}"
        return None


def _job_fields(
    config: JobConfig, script: str, arguments: _Words, options: _Words
) -> dict[str, object]:
    fields = {"script": script, "journal_format": FORMAT}
    words = {"arguments": _as_text(arguments), "options": _as_text(options)}
    return {**msgspec.to_builtins(config), **fields, **words}


def _as_text(words: _Words) -> list[str]:
    return [os.fsencode(word).decode(errors="replace") for word in words]


def _taken(job: JobDir) -> str:
    return (
        f"{job.path} already holds a job (its journal or job.json is there); go on with it "
        f"by {job.resume_command()}, or name another folder: with --job-dir, or where "
        "there is no paceline run, with PACELINE_JOB_DIR"
    )
