"""The disk of the wind tunnel: shares of cuts and their manifests; some shares are damaged.

It survives everybody. Damage is seen when a share is read, as by its check sum.
"""

from collections import Counter
from typing import NamedTuple, final

from paceline.coordinator.ledgers import ManifestOrder
from paceline.ids import TaskKey
from paceline.server.decisions import KeptVoid, SlotMarks, TrackedState

Applied = dict[int, Counter[tuple[TaskKey, int]]]  # {slot: {(task, batch): times}}
Voided = dict[int, set[tuple[TaskKey, int]]]  # {slot: of these, batches without effect}


class SimShare(NamedTuple):
    """A server's share of a cut."""

    applied: Applied
    marks: dict[int, SlotMarks]
    versions: dict[int, int]
    tracked: TrackedState
    voids: tuple[KeptVoid, ...]
    voided: Voided


@final
class Disk:
    """What survives everybody."""

    def __init__(self) -> None:
        """Empty."""
        self._shares: dict[tuple[str, str], SimShare] = {}  # {(folder, server): its share}
        self._damaged: set[tuple[str, str]] = set()  # (folder, server)
        self._spared: set[str] = set()  # folders of cuts that are never damaged
        self._manifests: dict[str, ManifestOrder] = {}  # {folder: its manifest}

    def write(self, folder: str, server: str, share: SimShare, *, is_damaged: bool) -> None:
        """Write a share; a damaged one looks well until it is read."""
        self._shares[folder, server] = share
        if is_damaged and folder not in self._spared:
            self._damaged.add((folder, server))

    def read(self, folder: str, server: str) -> SimShare | None:
        """A share; None if there is none."""
        return self._shares.get((folder, server))

    def is_damaged(self, folder: str, server: str) -> bool:
        """Whether a share cannot be read."""
        return (folder, server) in self._damaged

    def commit(self, order: ManifestOrder) -> None:
        """Write a manifest; only what can be returned behind stays damaged.

        The first cut has no older one, and who has left after the last loop would not come
        back to what lies before its end.
        """
        folder = order.cut.folder
        if not self._manifests or order.cut.ends_stage:
            self._spared.add(folder)
            self._damaged = {place for place in self._damaged if place[0] != folder}
        self._manifests[folder] = order

    def newest_whole(self, cut: int, timeline: int) -> ManifestOrder:
        """The newest cut that is older than this one, and undamaged."""
        bad = {folder for folder, _ in self._damaged}
        older = [
            order
            for folder, order in self._manifests.items()
            if (order.cut.timeline, order.cut.cut) < (timeline, cut) and folder not in bad
        ]
        return max(older, key=lambda order: (order.cut.timeline, order.cut.cut))
