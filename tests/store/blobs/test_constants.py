"""What never changes is written once, verified with cuts, and goes with the last one."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
import xxhash

from paceline.errors import CheckpointCorrupt, StoreError
from paceline.messages.shared import Beside, FrozenSpec, PartPlan
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.blobs.contents import (
    FOLDER,
    read_constants,
    verify_constants,
    write_constants,
)
from paceline.store.cuts.export_plan import frozen_bytes
from paceline.store.cuts.manifest import Manifest, verify_cut, write_manifest
from paceline.store.cuts.retention import drop_cut, sweep_constants
from paceline.store.cuts.shares import RawTensor, read_buffers
from paceline.trainer.encoding.state_codec import encode_state
from tests.store.conftest import PLAN

DATA = b"12345678"
DescribeCut = Callable[..., Manifest]


def beside_of(data: bytes, **changes: object) -> Beside:
    name = xxhash.xxh3_128_hexdigest(data)
    spec = FrozenSpec(("backbone",), (len(data) // 4,), "float32", name)
    beside = Beside((spec,), name, len(data), digest(data))
    return msgspec.structs.replace(beside, **changes)


def plan_of(beside: Beside) -> PartPlan:
    spec = msgspec.structs.replace(PLAN.spec, beside=beside)
    return msgspec.structs.replace(PLAN, spec=spec)


def test_the_same_is_written_once_and_what_is_damaged_anew(store: BlobStore) -> None:
    beside = beside_of(DATA)
    write_constants(store, beside, [DATA[:3], DATA[3:]])
    path = Path(store.url) / FOLDER / beside.name
    written = path.stat().st_mtime_ns
    write_constants(store, beside, [DATA])
    assert path.stat().st_mtime_ns == written
    path.write_bytes(b"x" + DATA[1:])
    with pytest.raises(CheckpointCorrupt, match=r"expected xxh3"):
        read_constants(store, beside)
    write_constants(store, beside, [DATA])
    assert read_constants(store, beside) == DATA


def test_other_bytes_than_described_are_not_written(store: BlobStore) -> None:
    with pytest.raises(StoreError, match=r"expected 8 bytes of xxh3 .*, came 7 of"):
        write_constants(store, beside_of(DATA), [DATA[:7]])
    assert store.folder(FOLDER).names() == []


def test_a_cut_is_whole_only_with_what_it_names(
    store: BlobStore, describe_cut: DescribeCut
) -> None:
    beside = beside_of(DATA)
    manifest = msgspec.structs.replace(describe_cut(1), plans=(plan_of(beside),))
    with pytest.raises(CheckpointCorrupt, match=r"the file is missing"):
        write_manifest(store, manifest)
    write_constants(store, beside, [DATA])
    write_manifest(store, manifest)
    assert verify_cut(store, "cut-000001-t1") == manifest
    (Path(store.url) / FOLDER / beside.name).write_bytes(b"x" + DATA[1:])
    with pytest.raises(CheckpointCorrupt, match=r"expected xxh3"):
        verify_cut(store, "cut-000001-t1")
    verify_cut(store, "cut-000001-t1", reads_constants=False)
    verify_constants(store, manifest.plans, read_all=False)


def test_what_no_cut_and_no_part_names_goes(
    store: BlobStore, describe_cut: DescribeCut
) -> None:
    old, new, loose = (beside_of(data * 2) for data in (b"oldd", b"neww", b"lose"))
    for beside, data in ((old, b"oldd"), (new, b"neww"), (loose, b"lose")):
        write_constants(store, beside, [data * 2])
    store.write(f"{FOLDER}/of-somebody-else", [b"stays"])
    plans = (plan_of(old),)
    write_manifest(store, msgspec.structs.replace(describe_cut(1), plans=plans))
    sweep_constants(store, lambda: [plan_of(new)])
    left = ["of-somebody-else", old.name, new.name]
    assert store.folder(FOLDER).names() == sorted(left)
    drop_cut(store, "cut-000001-t1")
    sweep_constants(store, lambda: [plan_of(new)])
    assert old.name not in store.folder(FOLDER).names()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"name": "../../etc/passwd"}, "cannot be the name of what never changes"),
        ({"bytes": 9}, "have 8 bytes, their file 9"),
        ({"frozen": (FrozenSpec(("a",), (1 << 60,), "int4", ""),)}, "'int4' cannot be"),
    ],
)
def test_a_forged_name_or_size_is_refused(
    store: BlobStore, describe_cut: DescribeCut, changes: dict[str, object], wrong: str
) -> None:
    plans = (plan_of(beside_of(DATA, **changes)),)
    with pytest.raises(StoreError, match=wrong):
        write_manifest(store, msgspec.structs.replace(describe_cut(1), plans=plans))


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "bool", "complex64", "uint16", "int64", "bfloat16"]
)
def test_bytes_of_a_frozen_parameter_are_those_of_torch(dtype: str) -> None:
    value = torch.zeros(3, 2, dtype=getattr(torch, dtype))
    assert frozen_bytes(FrozenSpec(("a",), (3, 2), dtype, "")) == value.nbytes


def test_buffers_are_read_from_a_state_as_they_were_written() -> None:
    buffers = {"mean": torch.tensor([1.5, 2.5]), "seen": torch.tensor(3)}
    state = {"buffers of part 0": buffers, "ema": {"decay": 0.5, "words": ("a", {1, 2})}}
    data = encode_state(state, "state")
    assert read_buffers(data, ["buffers of part 0", "buffers of part 1"]) == {
        "buffers of part 0": {
            "mean": RawTensor("F32", (2,), buffers["mean"].numpy().tobytes()),
            "seen": RawTensor("I64", (), buffers["seen"].numpy().tobytes()),
        }
    }


@pytest.mark.parametrize("data", [b"", b"nothing", encode_state([1, 2], "state")])
def test_what_is_no_state_is_damage(data: bytes) -> None:
    with pytest.raises(CheckpointCorrupt, match=r"not a state that was kept"):
        read_buffers(data, ["buffers of part 0"])
