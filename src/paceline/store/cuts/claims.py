"""Whose a place of cuts is: one small file for each run of the job that keeps them there.

::

    claims/run-000001.json    which job, which of its runs, who and where, in words;
                              the job's description: another machine goes on by it
    claims/run-000002.json    the same job, resumed: the highest number counts

A place belongs to one job for ever, as a job folder does: another job is refused, also
when the first has ended. The same job takes over with the next number. There are no
time-outs: whoever runs under a lower number looks before each manifest (`taken_over`),
and commits nothing any more.

A name is written once, in a folder (a link) as in an object store (a PUT that refuses an
existing name). So of two launchers that want one number, one is refused and looks again.
Older claims are removed, and one that was slow may then get the number of a removed one:
so whoever has written looks once more whether its claim is the highest.

Versions before did not claim, so two jobs may have left their cuts in one place: those of
another job are neither loaded nor removed. A manifest says of which job its cut is; older
ones say only of which run. They are a job's own in its own job folder, and elsewhere if
they are of the run that the job was when it got its id.

Waits: for storage; `foreign_cuts` reads every manifest of the place. Any thread.
"""

import logging
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from paceline.config import JobConfig
from paceline.errors import CheckpointCorrupt, StoreError, UsageError
from paceline.store.blobs import BlobStore
from paceline.store.cuts.manifest import Cut, Manifest, cut_folders, read_manifest

FOLDER: Final = "claims"
_NAME = re.compile(r"run-(\d{6,18})\.json")
_TRIES = 20  # each lost to another launcher of the same job, which has got one
_log = logging.getLogger("paceline.store")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps cuts in a place."""

    job: str  # id of the job
    run: str  # id of its run; no two claims have the same
    holder: str  # who has begun the run, in words
    folder: str  # the job folder
    number: int = 0  # which run of the job in this place it is, from 1
    since: float = 0.0  # seconds since 1970, for display only
    config: str = ""  # `JobConfig` as JSON; the version before did not say

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.since, tz=UTC).astimezone()
        since = f" at {moment:%Y-%m-%d %H:%M:%S}" if self.since else ""
        return (
            f"run {self.number} of job {self.job}, begun{since} by {self.holder} "
            f"({self.folder})"
        )


_decoder = msgspec.json.Decoder(Claim)


def newest_claim(store: BlobStore) -> Claim | None:
    """The claim that counts; None if nobody has ever claimed the place.

    Raises:
        StoreError: the storage fails, or what lies there is no claim.
    """
    place = store.folder(FOLDER)
    for _ in range(_TRIES):
        matches = filter(None, map(_NAME.fullmatch, place.names()))
        numbers = {int(match[1]): match[0] for match in matches}
        if not numbers:
            return None
        name = numbers[max(numbers)]
        try:
            data = place.read(name)
        except StoreError:
            if place.exists(name):
                raise
            continue  # the next run has taken over, and removed it
        try:
            claim = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise StoreError(f"{place.url}/{name}: not a claim: {error}") from error
        return msgspec.structs.replace(claim, number=max(numbers))
    raise StoreError(f"{place.url}: claims come and go, and none stays to be read")


def refuse_other_job(store: BlobStore, job: str) -> Claim | None:
    """The claim that counts, if there is one; it is of this job.

    Raises:
        UsageError: the place is another job's.
        StoreError: the storage fails.
    """
    last = newest_claim(store)
    if last is not None and last.job != job:
        raise UsageError(
            f"{store.url} holds the checkpoints of another job ({last}); a place belongs "
            f"to one job for ever: name another place with --checkpoints, go on with that "
            f"job by --resume --job-dir {last.folder}, or remove the place first"
        )
    return last


def claim_place(store: BlobStore, wanted: Claim) -> Claim:
    """The place is that run's from now on; its number is the next one.

    Raises:
        UsageError: the place is another job's.
        StoreError: the storage is not there, is full or fails.
    """
    place = store.folder(FOLDER)
    for _ in range(_TRIES):
        last = refuse_other_job(store, wanted.job)
        number = 1 if last is None else last.number + 1
        mine = msgspec.structs.replace(wanted, number=number)
        try:
            place.write(_name(number), [msgspec.json.encode(mine)])
        except StoreError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            continue  # another launcher was faster
        if newest_claim(store) == mine:
            _remove_older(place, number)
            return mine
        place.remove(_name(number))
    raise StoreError(f"{store.url}: other launchers claim it again and again")


def taken_over(store: BlobStore, run: str) -> Claim | None:
    """Who has claimed the place after this run; None if nobody has.

    Raises:
        StoreError: the storage fails.
    """
    newest = newest_claim(store)
    return newest if newest is not None and newest.run != run else None


def _remove_older(place: BlobStore, number: int) -> None:
    try:
        for name in place.names():
            match = _NAME.fullmatch(name)
            if match is not None and int(match[1]) < number:
                place.remove(name)
    except StoreError as error:  # the highest number counts, whatever else lies there
        _log.warning("older claims stay: %s", error)


def _name(number: int) -> str:
    return f"run-{number:06d}.json"


class Owner(NamedTuple):
    """A job where it keeps its cuts.

    ``has_unnamed``: those that name no job are its own: the place is in its folder.
    """

    job: str  # its id
    has_unnamed: bool = False

    def has(self, manifest: Manifest) -> bool:
        """Whether a cut is the job's own."""
        if manifest.job:
            return manifest.job == self.job
        return self.has_unnamed or manifest.run == self.job


class ForeignCut(NamedTuple):
    """A cut that is to be left alone; ``why`` says so in words."""

    cut: Cut
    why: str


def owner_of(config: JobConfig) -> Owner:
    """A job where it keeps its cuts."""
    return Owner(config.job, has_unnamed=not config.checkpoints)


def foreign_cuts(store: BlobStore, owner: Owner) -> tuple[ForeignCut, ...]:
    """What of a place is not the job's own, oldest first, committed or not.

    A folder whose manifest is missing or damaged is the job's own, unless a foreign cut is
    on the same timeline or a later one: a job that goes on in such a place begins a
    timeline behind all that lies there.

    Raises:
        StoreError: the storage fails, or the format of a manifest is unknown.
    """
    foreign: list[ForeignCut] = []
    unknown: list[ForeignCut] = []
    for cut in cut_folders(store):
        where = f"{store.url}/{cut.folder}"
        try:
            manifest = read_manifest(store, cut.folder)
        except CheckpointCorrupt as error:
            unknown.append(
                ForeignCut(cut, f"{where}: it is not known whose it is: {error}")
            )
            continue
        if not owner.has(manifest):
            foreign.append(ForeignCut(cut, f"{where}: it is of {name_owner(manifest)}"))
    last = max((one.cut.timeline for one in foreign), default=-1)
    foreign += [one for one in unknown if one.cut.timeline <= last]
    return tuple(sorted(foreign, key=lambda one: (one.cut.timeline, one.cut.cut)))


def name_owner(manifest: Manifest) -> str:
    """Whose a cut is, in words."""
    if manifest.job:
        return f"job {manifest.job}"
    return f"run {manifest.run}, taken by a version that named no job"
