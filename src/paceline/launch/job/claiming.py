"""Who begins a run makes the job folder and the place of its cuts its own, or is refused.

::

    held folder -> job.json -> the place: of this job, of nobody else (`store.claims`)
                               a local one: held for the run, by a lock that falls with it

A new job wants a place without any cut; one that goes on wants its own, in its folder or,
where that is lost, in a new one: what the place says of the job is enough. Nothing of the
job is started before, so that nobody loads or removes what is another one's.

Waits: for storage.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from paceline.config import JobConfig
from paceline.errors import CheckpointCorrupt, UsageError
from paceline.launch.job.folder import JobDir
from paceline.machine import AS_BYTES, NO_LINK, hold_file, machine_name
from paceline.store.blobs import BlobStore, Patience
from paceline.store.cuts import (
    Claim,
    claim_place,
    cut_folders,
    list_cuts,
    name_owner,
    newest_claim,
    owner_of,
    read_manifest,
    refuse_other_job,
)
from paceline.timing import wall_time_s

LOCK: Final = ".launcher.lock"  # in a local place; no name of a store begins so
_NAMED: Final = 3  # cuts in a message
_EMPTY: Final = (
    "goes on with nothing: there is neither a journal in {folder} nor a checkpoint in "
    "{place}, so the job begins anew"
)
_ELSEWHERE: Final = (
    "{folder} is new: it goes on with the job whose checkpoints are in {place}"
)
_BEGUN: Final = Patience(pauses_s=())  # nothing runs yet: what is wrong is told at once
_RESUMED: Final = Patience()  # mostly nobody looks: what passes shall not end the job


@contextlib.contextmanager
def claimed(
    job: JobDir,
    config: JobConfig,
    script: str,
    say: Callable[[str], None],
    *,
    is_resumed: bool,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Iterator[JobConfig]:
    """Let a run be the job's; by whom the folder is held. The job as it is now.

    What goes on keeps the id that the folder says, or that of ``config`` in a folder that
    is yet unclaimed; ``say`` is told what was mended.

    Raises:
        UsageError: the folder or the place belongs to another job or another run of this
            one, or there is none to go on with; nothing has been changed.
        StoreError: the place is not there, cannot be written, or fails.
    """
    ran = script, arguments, options
    with contextlib.ExitStack() as stack:
        if is_resumed:
            is_elsewhere = bool(config.checkpoints) and not job.config.exists()
            if is_elsewhere:
                say(_ELSEWHERE.format(folder=job.path, place=config.checkpoints))
                is_empty = stack.enter_context(_begun(job, config, ran, is_resumed=True))
            else:
                config = structs.replace(config, job=job.read_config().job)
                is_empty = stack.enter_context(_held(job, config, is_resumed=True))
                job.claim_again(config, script, say, arguments, options)
            if is_empty:
                say(_EMPTY.format(folder=job.path, place=job.cuts_of(config)))
        else:
            stack.enter_context(_begun(job, config, ran, is_resumed=False))
        yield config


@contextlib.contextmanager
def _begun(
    job: JobDir,
    config: JobConfig,
    ran: tuple[str, Sequence[str], Sequence[str]],
    *,
    is_resumed: bool,
) -> Iterator[bool]:
    """Make the folder the job's, then hold the place; yields whether all is empty."""
    job.claim(config, *ran)
    with contextlib.ExitStack() as stack:
        try:
            is_empty = stack.enter_context(_held(job, config, is_resumed=is_resumed))
        except BaseException:
            job.config.unlink(missing_ok=True)  # the same command may be tried again
            raise
        yield is_empty


def job_of(place: str) -> JobConfig:
    """The job whose checkpoints lie in a place, as its last run was.

    Raises:
        UsageError: none does, or a version that did not keep the description.
        StoreError: the storage fails.
    """
    claim = newest_claim(BlobStore(place, _RESUMED))
    if claim is None:
        raise UsageError(f"--resume: no job has kept checkpoints at {place}")
    if not claim.config:
        raise UsageError(
            f"--resume: {place} belongs to {claim}, by a version of paceline that did not "
            "keep the job's description there: name its folder with --job-dir"
        )
    try:
        config = msgspec.json.decode(claim.config, type=JobConfig)
    except (msgspec.MsgspecError, UsageError) as error:
        raise UsageError(
            f"--resume: {place} belongs to {claim}, described by another version of "
            f"paceline ({error}): go on with that one, or name its folder with --job-dir"
        ) from error
    return structs.replace(config, checkpoints=place)


@contextlib.contextmanager
def _held(job: JobDir, config: JobConfig, *, is_resumed: bool) -> Iterator[bool]:
    """Claim the place of the job's cuts, hold a local one; yields whether all is empty."""
    is_empty = not job.journal.exists()
    store = BlobStore(job.cuts_of(config), _RESUMED if is_resumed else _BEGUN)
    refuse_other_job(store, config.job)
    with contextlib.ExitStack() as stack:
        store.make_root()
        if store.local is not None:
            stack.enter_context(_locked(store, store.local))
        if is_resumed:
            is_empty &= not _has_own_cuts(store, config)
        else:
            _refuse_cuts(store)
        mine = Claim(
            job=config.job,
            run=config.run,
            holder=f"process {os.getpid()} on {machine_name()}",
            folder=str(job.path),
            since=wall_time_s(),
            config=msgspec.json.encode(config).decode(),
        )
        claim_place(store, mine)
        yield is_empty


@contextlib.contextmanager
def _locked(store: BlobStore, place: Path) -> Iterator[None]:
    """Be the only launcher that uses a local place; where nothing can be locked, go on.

    What cannot be written is told by the claim, which comes next.
    """
    flags = os.O_RDWR | os.O_CREAT | AS_BYTES | NO_LINK
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(place / LOCK, flags, 0o600)
            stack.callback(os.close, descriptor)
            try:
                hold_file(descriptor)
            except BlockingIOError:
                raise UsageError(
                    f"{place}: a job that keeps its checkpoints there is running, perhaps "
                    f"from another copy of its folder ({newest_claim(store)}); end it "
                    f"first, or name another place with --checkpoints"
                ) from None
        yield


def _refuse_cuts(store: BlobStore) -> None:
    """A new job wants a place without cuts, whole or begun."""
    folders = [cut.folder for cut in cut_folders(store)]
    if folders:
        raise UsageError(
            f"{store.url} holds checkpoints already: {_named(store, folders)}; a new job "
            f"neither loads nor removes them: name an empty place with --checkpoints, go "
            f"on with their job by --resume, or remove them first"
        )


def _has_own_cuts(store: BlobStore, config: JobConfig) -> bool:
    """Whether there is a cut of the job, or one that cannot be told; refuses others."""
    owner = owner_of(config)
    folders: list[str] = []
    for cut in reversed(list_cuts(store)):
        try:
            if owner.has(read_manifest(store, cut.folder)):
                return True
        except CheckpointCorrupt:
            return True  # it may be; the coordinator says what is wrong with it
        folders.insert(0, cut.folder)
    if folders:
        raise UsageError(
            f"{store.url} holds no checkpoint of job {config.job}, but others: "
            f"{_named(store, folders)}; the job does not go on from "
            f"them: if they are another job's, remove them; if they are its own, of a run "
            f"before the last, go on with the version that wrote them"
        )
    return False


def _named(store: BlobStore, folders: list[str]) -> str:
    """The newest of some cuts, each with whose it is."""
    told = []
    for folder in folders[-_NAMED:]:
        try:
            told.append(f"{folder} of {name_owner(read_manifest(store, folder))}")
        except CheckpointCorrupt:
            told.append(f"{folder}, which was never ended or is damaged")
    more = len(folders) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")
