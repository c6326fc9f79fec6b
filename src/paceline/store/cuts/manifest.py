"""The manifest of a cut: the one small file whose presence makes the cut true.

::

    {"check":"<xxh3-64 of the rest>","format":3,"run":"...","cut":12,"timeline":3,...}

Files of servers first, the manifest last: a folder without a manifest is no cut and may
go. The check covers every byte behind it and nothing stands before it but its own name,
so any flipped byte is noticed. Cuts are ordered by (timeline, cut): what was taken after
a return is newer than anything of the abandoned future.

A check sum tells damage, not malice. So what a manifest may not say is looked at before
anything is made of it: names stay inside the cut's folder, numbers are not negative, slots
are those of the plans, and no plan asks for more memory than the cut's files have bytes:
the values of all dense blocks lie in them.

Waits: for storage; `verify_cut` and `newest_good_cut` read whole cuts. Any thread, but
one at a time may commit.
"""

import math
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.failpoints import failpoint
from paceline.messages.server import FileEntry
from paceline.messages.shared import Beside, PartPlan
from paceline.store.blobs import (
    BlobStore,
    digest,
    is_bare_name,
    is_constant_name,
    verify_constants,
)
from paceline.store.cuts.export_plan import DTYPES, frozen_bytes

FORMAT = 3
READ_FORMATS = (2, 3)  # those of the version before lack what parts have beside
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 30
_FOLDER = re.compile(r"cut-(\d{6,18})-t(\d{1,18})")
_HEAD_BYTES = len(b'{"check":"0123456789abcdef",')


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All there is to know about a cut."""

    format: int = FORMAT  # version of this layout
    run: str  # id of the run that took the cut
    job: str = ""  # id of the job; the version before did not say
    cut: int  # number of the cut; never used twice on a timeline
    timeline: int  # timeline that it was taken on
    files: dict[str, tuple[FileEntry, ...]]  # {server id: files}
    plans: tuple[PartPlan, ...]  # all parts, as shared up to then
    rounds: dict[int, int]  # {part: round}
    queue: bytes  # the coordinator's durable state, opaque here
    queue_xxh3: str  # `paceline.store.blobs.blobs.digest` of ``queue``
    created: float  # seconds since 1970, for display only
    records: int = 0  # acknowledged records of the job when the queue was copied
    steps: int = 0  # rounds or direct pushes applied by then

    def entries(self) -> list[FileEntry]:
        """The files of all servers."""
        return [entry for entries in self.files.values() for entry in entries]


class Cut(NamedTuple):
    """A committed cut by name; its files may still be damaged."""

    cut: int
    timeline: int
    folder: str


class GoodCut(NamedTuple):
    """The newest cut that verifies, or None if none was ever committed.

    ``skipped`` says of each newer cut what is wrong with it.
    """

    manifest: Manifest | None
    skipped: tuple[str, ...]


class _Version(msgspec.Struct):
    format: int


_decoder = msgspec.json.Decoder(Manifest)
_version_decoder = msgspec.json.Decoder(_Version)


def cut_folder(cut: int, timeline: int) -> str:
    """The folder of a cut, like ``cut-000012-t3``."""
    return f"cut-{cut:06d}-t{timeline}"


def write_manifest(store: BlobStore, manifest: Manifest) -> None:
    """Commit a cut whose files are all durable: it exists when this returns.

    If the process dies meanwhile the cut exists wholly or not at all.

    Raises:
        CheckpointCorrupt: a described file is not in the folder in its size.
        StoreError: the cut is committed already, the manifest cannot be told in JSON
            exactly (a number that is not finite) or is too large to be read again, or
            the storage fails.
    """
    folder = cut_folder(manifest.cut, manifest.timeline)
    encoded = msgspec.json.encode(manifest)
    wrong = _wrong(manifest, folder)
    num_bytes = _HEAD_BYTES + len(encoded) - 1
    if wrong is None and num_bytes > MAX_MANIFEST_BYTES:
        wrong = f"it has {num_bytes:,} bytes, allowed {MAX_MANIFEST_BYTES:,}"
    if wrong is None and _decoder.decode(encoded) != manifest:
        wrong = "it does not read back as it was (is a hyper-parameter not finite?)"
    if wrong is not None:
        raise StoreError(f"{store.url}/{folder}: this manifest cannot be written: {wrong}")
    place = store.folder(folder)
    for entry in manifest.entries():
        place.verify_size(entry)
    verify_constants(store, manifest.plans, read_all=False)
    failpoint("store.before_manifest")
    place.write(MANIFEST_NAME, [_head(encoded), encoded[1:]])
    failpoint("store.after_manifest")


def read_manifest(store: BlobStore, folder: str) -> Manifest:
    """The manifest of a committed cut, checked; the files it describes are not looked at.

    Raises:
        CheckpointCorrupt: there is none, or a byte of it is not as it was written.
        StoreError: it is of a format that this version does not read.
    """
    place = store.folder(folder)
    where = f"{place.url}/{MANIFEST_NAME}"
    size = place.size(MANIFEST_NAME)
    if size is None:
        raise CheckpointCorrupt(f"{where}: missing; this cut was never committed")
    if size > MAX_MANIFEST_BYTES:
        raise CheckpointCorrupt(f"{where}: {size} bytes, allowed {MAX_MANIFEST_BYTES}")
    data = place.read(MANIFEST_NAME)
    head, encoded = data[:_HEAD_BYTES], b"{" + data[_HEAD_BYTES:]
    if head != _head(encoded):
        raise CheckpointCorrupt(
            f"{where}: expected it to begin with {_head(encoded)!r}, came {head!r}"
        )
    try:
        version = _version_decoder.decode(encoded).format
        if version not in READ_FORMATS:
            known = " and ".join(map(str, READ_FORMATS))
            raise StoreError(
                f"{where}: format {version}, but this paceline reads format {known}; "
                f"use the version that wrote it"
            )
        manifest = _decoder.decode(encoded)
    except msgspec.DecodeError as error:
        raise CheckpointCorrupt(f"{where}: not a manifest: {error}") from error
    wrong = _wrong(manifest, folder)
    if wrong is not None:
        raise CheckpointCorrupt(f"{where}: {wrong}")
    return manifest


def list_cuts(store: BlobStore) -> list[Cut]:
    """Committed cuts, oldest first; what they hold is not verified."""
    return [
        cut for cut in cut_folders(store) if store.exists(f"{cut.folder}/{MANIFEST_NAME}")
    ]


def verify_cut(store: BlobStore, folder: str, *, reads_constants: bool = True) -> Manifest:
    """Read every byte of a cut, and of what it names beside it; its manifest.

    Without ``reads_constants`` of the latter only that it is there: it never changes.

    Raises:
        CheckpointCorrupt: names the file that is missing or differs.
        StoreError: the format is unknown or the storage fails.
    """
    manifest = read_manifest(store, folder)
    place = store.folder(folder)
    for entry in manifest.entries():
        place.verify(entry)
    verify_constants(store, manifest.plans, read_all=reads_constants)
    return manifest


def newest_good_cut(
    store: BlobStore, older_than: Cut | None = None, spared: Collection[str] = ()
) -> GoodCut:
    """The newest cut that verifies, of those not ``spared``, and what was skipped.

    Raises:
        CheckpointCorrupt: there are cuts and none verifies; names what is wrong with each.
        StoreError: the newest cut is of an unknown format, or the storage fails: an older
            cut is not taken then, since the newer one may be good.
    """
    skipped: list[str] = []
    for cut in reversed(list_cuts(store)):
        if cut.folder in spared:
            continue
        if older_than is not None and cut_age(cut) >= cut_age(older_than):
            continue
        try:
            return GoodCut(verify_cut(store, cut.folder), tuple(skipped))
        except CheckpointCorrupt as error:
            skipped.append(str(error))
    if skipped:
        raise CheckpointCorrupt(
            f"{store.url}: none of {len(skipped)} cuts is whole, so there is nothing to "
            f"go back to: {'; '.join(skipped)}"
        )
    return GoodCut(None, ())


def cut_folders(store: BlobStore) -> list[Cut]:
    """Folders that are named like cuts, oldest first, committed or not.

    Raises:
        StoreError: the storage fails.
    """
    matches = filter(None, map(_FOLDER.fullmatch, store.folders()))
    cuts = (Cut(int(match[1]), int(match[2]), match[0]) for match in matches)
    return sorted(
        (c for c in cuts if c.folder == cut_folder(c.cut, c.timeline)), key=cut_age
    )


def cut_age(cut: Cut) -> tuple[int, int]:
    """What cuts are ordered by: (timeline, cut)."""
    return cut.timeline, cut.cut


def _head(encoded: bytes) -> bytes:
    """How the file begins whose rest is ``encoded`` without its opening brace."""
    return b'{"check":"%s",' % digest(encoded).encode()


def _wrong(manifest: Manifest, folder: str) -> str | None:
    """What a manifest says that cannot be so, if anything."""
    if manifest.cut < 0 or manifest.timeline < 0:
        return f"cut {manifest.cut} of timeline {manifest.timeline} cannot be"
    own_folder = cut_folder(manifest.cut, manifest.timeline)
    if own_folder != folder:
        return f"it belongs into {own_folder}"
    came = digest(manifest.queue)
    if came != manifest.queue_xxh3:
        return f"expected the queue's xxh3 to be {manifest.queue_xxh3}, came {came}"
    num_bytes = sum(entry.bytes for entry in manifest.entries())
    return wrong_files(manifest) or wrong_plans(manifest.plans, num_bytes)


MAX_DIM: Final = 1 << 20  # values of a row


def wrong_files(manifest: Manifest) -> str | None:
    """What is wrong with a cut's files, if anything."""
    entries = manifest.entries()
    for name in [*manifest.files, *(entry.name for entry in entries)]:
        if not is_bare_name(name) or name == MANIFEST_NAME:
            return f"{name!r} cannot be the name of a server or a file of a cut"
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        return f"two servers wrote one file: {sorted(names)}"
    for entry in entries:
        if entry.bytes < 0:
            return f"{entry.name} cannot have {entry.bytes} bytes"
    return None


def wrong_plans(plans: Sequence[PartPlan], num_bytes: int) -> str | None:
    """What is wrong with a cut's plans, if anything; its files have ``num_bytes``."""
    parts = [plan.spec.part for plan in plans]
    if len(set(parts)) != len(parts) or min(parts, default=0) < 0:
        return f"the parts {parts} cannot be"
    dense_bytes = 0
    slots: set[int] = set()
    for plan in plans:
        wrong = _wrong_plan(plan)
        if wrong is not None:
            return f"part {plan.spec.part}: {wrong}"
        if slots & plan.placement.keys():
            return f"part {plan.spec.part} and another share slots"
        slots |= plan.placement.keys()
        for block in plan.blocks:
            dtype = plan.spec.parameters[block.parameter].dtype
            dense_bytes += (block.stop - block.start) * DTYPES[dtype][1]
    if dense_bytes > num_bytes:
        return f"its blocks have {dense_bytes} bytes, its files only {num_bytes}"
    return None


def _wrong_plan(plan: PartPlan) -> str | None:
    row_slots = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
    own = {block.slot for block in plan.blocks}
    num_slots = len(plan.blocks) + len(row_slots)
    # Counted before it is spelled out: a range of 2**60 fits into twenty bytes.
    if plan.num_row_slots < 0 or num_slots != len(plan.placement):
        return f"{num_slots} slots are planned, {len(plan.placement)} placed"
    if plan.placement.keys() != own.union(row_slots) or min(plan.placement, default=0) < 0:
        return "other slots are placed than planned"
    if not all(map(is_bare_name, plan.placement.values())):
        return "a slot is placed on what cannot be a server"
    for block in plan.blocks:
        if not 0 <= block.parameter < len(plan.spec.parameters):
            return f"a block is of parameter {block.parameter}, which is none"
        parameter = plan.spec.parameters[block.parameter]
        if parameter.dtype not in DTYPES or min(parameter.shape, default=0) < 0:
            return f"{parameter.shape} {parameter.dtype!r} cannot be a parameter"
        if not 0 <= block.start < block.stop <= math.prod(parameter.shape):
            return f"block {block.start}..{block.stop} is not in {parameter.shape}"
    for table in plan.spec.tables:
        if not 1 <= table.dim <= MAX_DIM:
            return f"table {table.name!r} cannot have rows of {table.dim} values"
    return _wrong_beside(plan.spec.beside)


def _wrong_beside(beside: Beside | None) -> str | None:
    if beside is None or not beside.frozen:
        return None
    if not is_constant_name(beside.name):
        return f"{beside.name!r} cannot be the name of what never changes"
    for one in beside.frozen:
        if frozen_bytes(one) is None or min(one.shape, default=0) < 0 or not one.names:
            return f"{one.shape} {one.dtype!r} cannot be a frozen parameter"
    sizes = sum(frozen_bytes(one) or 0 for one in beside.frozen)
    if sizes != beside.bytes:
        return f"its frozen parameters have {sizes} bytes, their file {beside.bytes}"
    return None
