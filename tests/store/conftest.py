"""A small cut: two servers' files and a manifest that says everything once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.config import Adagrad, Sync, Uniform
from paceline.messages.shared import (
    Block,
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    TableSpec,
)
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.retries import Patience
from paceline.store.cuts.manifest import Manifest, cut_folder, write_manifest

PLAN = PartPlan(
    spec=PartSpec(
        part=0,
        parameters=(ParameterSpec(("weight", "tied"), (4, 3), "float32"),),
        optimizer=OptimizerSpec(
            "Adam", ({"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8},)
        ),
        tables=(TableSpec("user", 16, Adagrad(lr=0.05), Uniform(0.05)),),
        pace=Sync(),
    ),
    blocks=(Block(0, 0, 0, 6), Block(1, 0, 6, 12)),
    first_row_slot=2,
    num_row_slots=16,
    placement={slot: f"server-{slot % 2}" for slot in range(18)},
)
QUEUE = b"\x82\xa5epoch\x01\xa4todo\x93\x01\x02\x03"

TakeCut = Callable[..., str]
DescribeCut = Callable[..., Manifest]


@pytest.fixture(autouse=True)
def disk_without_plug(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test can pull the plug, so only the order of syncing is tested."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path / "checkpoints"), Patience(wait=lambda _seconds: None))


@pytest.fixture
def describe_cut(store: BlobStore) -> DescribeCut:
    """Write the files of a cut; the manifest that would commit it."""

    def describe(cut: int, timeline: int = 1) -> Manifest:
        place = store.folder(cut_folder(cut, timeline))
        files = {
            server: (place.write(f"{server}.bin", [f"{server} {cut}".encode() * 5]),)
            for server in ("server-0", "server-1")
        }
        return Manifest(
            run="run-7",
            cut=cut,
            timeline=timeline,
            files=files,
            plans=(PLAN,),
            rounds={0: 41, 10: 3},
            queue=QUEUE,
            queue_xxh3=digest(QUEUE),
            created=1.75e9,
        )

    return describe


@pytest.fixture
def take_cut(store: BlobStore, describe_cut: DescribeCut) -> TakeCut:
    """Commit a cut; its folder."""

    def take(cut: int, timeline: int = 1) -> str:
        write_manifest(store, describe_cut(cut, timeline))
        return cut_folder(cut, timeline)

    return take
