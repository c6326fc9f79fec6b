"""Bytes of a cut that turn, as on a bad disk: only where an older cut can take its place.

Waits: for the disk. One thread.
"""

from pathlib import Path
from typing import final

from paceline.errors import CheckpointCorrupt
from paceline.store.blobs import BlobStore
from paceline.store.cuts import list_cuts, read_manifest


@final
class Damage:
    """Damages newest cuts in one folder, and remembers which."""

    def __init__(self, cuts: Path) -> None:
        self._store = BlobStore(str(cuts))
        self.folders: list[str] = []  # of damaged cuts, in order

    def newest(self) -> bool:
        """Turn a byte in every file of the newest cut; false if there is none older.

        A cut that ends the stage of the last loop should not be damaged: trainers that
        have left do not come back to what lies before it.
        """
        folders = [cut.folder for cut in list_cuts(self._store)][-2:]
        if len(folders) < 2 or set(folders) & set(self.folders):
            return False
        try:
            entries = read_manifest(self._store, folders[1]).entries()
        except CheckpointCorrupt:  # it was swept away meanwhile
            return False
        for entry in entries:
            path = Path(self._store.url) / folders[1] / entry.name
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.folders.append(folders[1])
        return True
