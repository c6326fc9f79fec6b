"""From a moment that is held to a share that can be written: pages, a few at a time.

Between two rounds of copying at a slot its pushes go on; what they change is copied first.

Waits: for the slots, at most ``timeout_s`` for each few pages. Any thread.
"""

from paceline.errors import StoreError
from paceline.server.snapshots import CutShare, Pinned
from paceline.server.standing import ServerCore


def copied_share(standing: ServerCore, pinned: Pinned, timeout_s: float) -> CutShare:
    """Copy all that is not copied yet; the share as of the pinned moment.

    Raises:
        StoreError: a slot did not come to it in time, as when the server is ending.
    """
    if not pinned.done.wait(timeout_s):
        raise _too_slow(standing, timeout_s)
    for slot in pinned.snapshots:
        is_copied: bool | None = False
        while not is_copied:
            is_copied = standing.copy_some(pinned, slot)(timeout_s)
            if is_copied is None:
                raise _too_slow(standing, timeout_s)
    slots = {slot: snapshot.tensors() for slot, snapshot in pinned.snapshots.items()}
    return CutShare(slots, pinned.marks, pinned.versions, pinned.tracked, pinned.voids)


def _too_slow(standing: ServerCore, timeout_s: float) -> StoreError:
    return StoreError(f"{standing.server}: the slots were not copied in {timeout_s:g} s")
