"""The job folder: everything of a run lies in it, and what lies where.

::

    runs/20260301-101500-train/
      job.json         `JobConfig` and the script: written first, by whom the job is
      journal.sqlite   the coordinator's journal
      checkpoints/     cuts, unless the job keeps them elsewhere
      logs/            <role>.log: standard output and error of each process
      events.jsonl     one line per happening; of a long job, the last ones
      events.old.jsonl then, those before
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
import fcntl
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, final

import msgspec

from paceline.config import JobConfig
from paceline.errors import StoreError, UsageError
from paceline.launch.secret_file import remove_secret
from paceline.messages import JobStatus
from paceline.store.journal import FORMAT

_T = TypeVar("_T")

RUNS = Path("runs")  # where job folders go, unless a user names one

LONGEST_SOCKETS = 80  # bytes of the folder's path; leaves 27 for a socket's name


class RunFile(msgspec.Struct, frozen=True):
    """What ``run.json`` says while a job runs."""

    run: str
    coordinator: str
    sockets: str
    pid: int  # of the launcher


class _Written(msgspec.Struct, frozen=True):
    """By which version a folder's journal was written; the first did not say."""

    journal_format: int = 2


@final
class JobDir:
    """The paths of a job folder, and its small files."""

    def __init__(self, path: Path) -> None:
        """Name the paths; nothing is made or read."""
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
            UsageError: its job is running, or the folder cannot be made.
        """
        path = self.path / "launcher.lock"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"cannot make the job folder {self.path}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{self.path}: its job is running; end it first, or name another folder "
                "with --job-dir"
            ) from None
        else:
            yield
        finally:
            os.close(descriptor)

    def claim(self, config: JobConfig, script: str) -> None:
        """Make the folder and write ``job.json``: the folder is this job's from now on.

        Raises:
            UsageError: it belongs to another job, or cannot be made.
        """
        if self.journal.exists() or self.config.exists():
            raise UsageError(_taken(self.path, script))
        fields = _job_fields(config, script)
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            if not config.checkpoints:
                self.checkpoints.mkdir(exist_ok=True)
            with self.config.open("xb") as file:
                file.write(_pretty(fields))
        except FileExistsError:
            raise UsageError(_taken(self.path, script)) from None
        except OSError as error:
            raise UsageError(f"cannot make the job folder {self.path}: {error}") from error

    def claim_again(self, config: JobConfig, script: str) -> None:
        """Let a new run go on where the last one ended; by whom the folder is held.

        Sockets and secret of a run that was killed are removed; ``job.json`` says how this
        one is.

        Raises:
            UsageError: the folder holds no job, or its journal is of another version.
        """
        self.read_config()
        self._check_journal(script)
        run = self.read_run()
        if run is not None:
            remove_sockets(Path(run.sockets))
            self.run_file.unlink(missing_ok=True)
        remove_secret(self.secret)
        self.summary.unlink(missing_ok=True)
        self.status.unlink(missing_ok=True)
        self.logs.mkdir(exist_ok=True)
        _write_whole(self.config, _job_fields(config, script))

    def _check_journal(self, script: str) -> None:
        """Refuse a journal that this version cannot read, with the way around it."""
        written = _read(self.config, _Written)
        assert written is not None, "it was read a moment ago"
        if written.journal_format == FORMAT or not self.journal.exists():
            return
        away = self.path / f"journal-format-{written.journal_format}"
        quoted = [shlex.quote(str(path)) for path in (away, self.journal, self.path)]
        raise UsageError(
            f"{self.journal} is of format {written.journal_format}, and this paceline "
            f"reads format {FORMAT}: resume with the version that wrote it, or go on from "
            f"the last checkpoint, which trains again what came behind it:\n"
            f"mkdir {quoted[0]} && mv {quoted[1]}* {quoted[0]} && "
            f"paceline run --resume --job-dir {quoted[2]} {shlex.quote(script)}"
        )

    def read_config(self) -> JobConfig:
        """The job's description.

        Raises:
            UsageError: the folder holds no job.
            StoreError: ``job.json`` is damaged.
        """
        config = _read(self.config, JobConfig)
        if config is None:
            raise UsageError(f"{self.path} holds no job: it has no {self.config.name}")
        return config

    def read_run(self) -> RunFile | None:
        """Where the running job's coordinator listens; None when none is running."""
        return _read(self.run_file, RunFile)

    def read_status(self) -> JobStatus | None:
        """The coordinator's last word about an ended job, if there is one."""
        return _read(self.status, JobStatus)

    def read_summary(self) -> dict[str, object] | None:
        """The summary of an ended job; None while it runs."""
        return _read(self.summary, dict[str, object])

    def write_run(self, run: RunFile) -> None:
        """Tell observers where the coordinator listens."""
        _write_whole(self.run_file, run)

    def write_end(self, status: JobStatus | None, summary: dict[str, object]) -> None:
        """Keep how the job ended; nobody listens any more."""
        if status is not None:
            _write_whole(self.status, status)
        _write_whole(self.summary, summary)
        self.run_file.unlink(missing_ok=True)


def fresh_job_dir(root: Path, script: str, now_s: float) -> Path:
    """Make ``<root>/<YYYYmmdd-HHMMSS>-<script>`` (``-2``, ``-3`` ... when it is taken).

    Args:
        root: usually ``runs``.
        script: the script's path; its stem goes into the name.
        now_s: seconds since 1970.

    Raises:
        UsageError: the folder cannot be made.
    """
    moment = datetime.fromtimestamp(now_s, tz=UTC).astimezone()
    name = f"{moment:%Y%m%d-%H%M%S}-{Path(script).stem or 'job'}"
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise UsageError(f"cannot make the job folder {path}: {error}") from error
        else:
            return path


def make_sockets() -> Path:
    """Make a private folder (0700) with a short path for a job's Unix sockets."""
    path = tempfile.mkdtemp(prefix="paceline-")
    if len(os.fsencode(path)) <= LONGEST_SOCKETS:
        return Path(path)
    Path(path).rmdir()
    return Path(tempfile.mkdtemp(prefix="paceline-", dir="/tmp"))


def remove_sockets(folder: Path) -> None:
    """Remove the sockets and their folder; done twice, or by two, is done once."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def _job_fields(config: JobConfig, script: str) -> dict[str, object]:
    """What ``job.json`` says."""
    fields = {"script": script, "journal_format": FORMAT}
    return {**msgspec.to_builtins(config), **fields}


def _taken(path: Path, script: str) -> str:
    resume = shlex.join(
        ["paceline", "run", "--resume", "--job-dir", str(path), script or "SCRIPT"]
    )
    return (
        f"{path} already holds a job (its journal or job.json is there); go on with it by "
        f"{resume}, or name another folder: with --job-dir, or where there is no paceline "
        "run, with PACELINE_JOB_DIR"
    )


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _write_whole(path: Path, value: object) -> None:
    """Write so that a reader sees the old file or the new one, never half of one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(_pretty(value))
    partial.replace(path)


def _read(path: Path, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
