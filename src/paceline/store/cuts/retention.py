"""Which cuts may go: only what a newer cut replaces, and only when that one is whole.

Every byte of the newer cuts is read before an older one is removed. The manifest goes
first and durably: half a cut is no cut.

Waits: for storage; whole cuts are read. One thread at a time.
"""

from collections.abc import Callable, Collection, Iterable

from paceline.errors import CheckpointCorrupt
from paceline.messages.shared import PartPlan
from paceline.store.blobs import FOLDER, BlobStore, constants_of, is_constant_name
from paceline.store.cuts.manifest import (
    MANIFEST_NAME,
    Cut,
    cut_age,
    cut_folders,
    list_cuts,
    read_manifest,
    verify_cut,
)


def sweep(
    store: BlobStore, keep: int, newest: str, spared: Collection[str] = ()
) -> tuple[str, ...]:
    """Remove what is superseded; the removed folders, oldest first.

    A committed cut goes when ``keep`` newer ones verify, a folder without a manifest
    when it is older than the newest. Cuts beyond ``newest`` count for nothing and stay:
    they are yet unknown to the journal, or being written. So do those in ``spared``, of
    other jobs. Nothing goes that is not named like a cut. If the process dies meanwhile,
    sweeping again goes on.

    Raises:
        StoreError: the storage fails, or a newer cut is of an unknown format.
    """
    assert keep >= 1
    committed = [cut for cut in list_cuts(store) if cut.folder not in spared]
    folders = [cut.folder for cut in committed]
    if newest not in folders:
        return ()
    committed = committed[: folders.index(newest) + 1]
    older = committed[: _first_kept(store, committed, keep)]
    loose = [
        cut
        for cut in cut_folders(store)
        if cut_age(cut) < cut_age(committed[-1])
        and cut not in committed
        and cut.folder not in spared
    ]
    removed = sorted([*older, *loose], key=cut_age)
    for cut in removed:
        drop_cut(store, cut.folder)
    return tuple(cut.folder for cut in removed)


def drop_cut(store: BlobStore, folder: str) -> None:
    """Remove a cut, or what was written of one; it is no error if there is none.

    Raises:
        StoreError: the storage fails; call again to go on.
    """
    store.remove(f"{folder}/{MANIFEST_NAME}")  # first: half a cut is no cut
    store.remove_folder(folder)


def sweep_constants(store: BlobStore, planned: Callable[[], Iterable[PartPlan]]) -> None:
    """Remove what never changes where no cut names it any more.

    The parts that are ``planned`` are asked for when the files are listed, since a part is
    planned before its files are written, and before each goes.

    Raises:
        StoreError: the storage fails.
    """
    place = store.folder(FOLDER)
    written = [name for name in place.names() if is_constant_name(name)]
    if not written:
        return
    named = set(constants_of(planned()))
    for cut in list_cuts(store):
        try:
            named |= constants_of(read_manifest(store, cut.folder).plans).keys()
        except CheckpointCorrupt:
            return  # nobody knows what it names
    for name in written:
        if name not in named and name not in constants_of(planned()):
            place.remove(name)


def _first_kept(store: BlobStore, committed: list[Cut], keep: int) -> int:
    """The index of the ``keep``-th newest cut that verifies; 0 if there are fewer."""
    good = 0
    for index in range(len(committed) - 1, 0, -1):
        try:
            verify_cut(store, committed[index].folder, reads_constants=False)
        except CheckpointCorrupt:
            continue
        good += 1
        if good == keep:
            return index
    return 0
