"""Whose a place of cuts is: one small file for each run of the job that keeps them there.

::

    claims/run-000001.json    which job, which of its runs, who and where, in words
    claims/run-000002.json    the same job, resumed: the highest number counts

A place belongs to one job for ever, as a job folder does: another job is refused, also
when the first has ended. The same job takes over with the next number. There are no
time-outs: whoever runs under a lower number looks before each manifest (`taken_over`),
and commits nothing any more.

A name is written once, in a folder (a link) as in an object store (a PUT that refuses an
existing name). So of two launchers that want one number, one is refused and looks again.
Older claims are removed, and one that was slow may then get the number of a removed one:
so whoever has written looks once more whether its claim is the highest.

Waits: for storage. Any thread.
"""

import logging
import re
from typing import Final

import msgspec

from paceline.errors import StoreError, UsageError
from paceline.store.blobs import BlobStore

FOLDER: Final = "claims"
_NAME = re.compile(r"run-(\d{6,18})\.json")
_TRIES = 20  # each lost to another launcher of the same job, which has got one
_log = logging.getLogger("paceline.store")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps cuts in a place.

    Args:
        job: id of the job.
        run: id of its run; no two claims have the same.
        holder: who has begun the run, in words.
        folder: the job folder.
        number: which run of the job in this place it is, from 1.
    """

    job: str
    run: str
    holder: str
    folder: str
    number: int = 0

    def __str__(self) -> str:
        return (
            f"run {self.number} of job {self.job}, begun by {self.holder} ({self.folder})"
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
