"""An older cut is sought as long as storage may be away, and no longer."""

from typing import Any

import pytest

from paceline.config import JobConfig
from paceline.coordinator import storage as opening
from paceline.coordinator.decisions.checkpoints import Stored
from paceline.coordinator.storage import SEEK_S, wait_older
from paceline.errors import CheckpointCorrupt, StoreError
from paceline.store.blobs.blobs import BlobStore
from paceline.store.cuts.manifest import Cut
from paceline.timing import ManualClock

BAD = Cut(2, 0, "cut-000002-t0")


class Storage:
    """Fails so many times, then answers."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = failures
        self.clock = ManualClock()
        self.asked: list[Cut | None] = []

    def read(
        self, _store: BlobStore, _config: JobConfig, older_than: Cut | None = None
    ) -> Stored:
        self.asked.append(older_than)
        if self.failures:
            raise self.failures.pop(0)
        return Stored(timeline=7)

    def wait(self, seconds: float) -> bool:
        self.clock.advance(seconds)
        return False

    def seek(self, patch: pytest.MonkeyPatch) -> Any:
        patch.setattr(opening, "read_stored", self.read)
        store, config = BlobStore("memory://cuts"), JobConfig(run="r")
        return wait_older(store, config, BAD, self.clock, self.wait)


def test_storage_that_is_away_for_a_while_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage([StoreError("away"), StoreError("away")])
    sought = storage.seek(monkeypatch)
    assert sought.found.timeline == 7
    assert storage.asked == [BAD] * 3


def test_storage_that_stays_away_ends_the_search_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = Storage([StoreError("away")] * 10_000)
    sought = storage.seek(monkeypatch)
    assert (sought.folder, sought.found, sought.error) == (BAD.folder, Stored(), "away")
    assert SEEK_S <= storage.clock.now_s() < SEEK_S + 10


def test_damage_is_not_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage([CheckpointCorrupt("none of 2 cuts is whole")])
    sought = storage.seek(monkeypatch)
    assert sought.error == "none of 2 cuts is whole"
    assert len(storage.asked) == 1
