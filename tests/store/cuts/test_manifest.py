"""A cut exists when its manifest does; a damaged one is noticed and an older one taken."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from paceline import failpoints
from paceline.errors import CheckpointCorrupt, StoreError
from paceline.failpoints import InjectedFault
from paceline.messages.server import FileEntry
from paceline.messages.shared import Block, OptimizerSpec, PartPlan
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.cuts import manifest as manifest_module
from paceline.store.cuts.manifest import (
    FORMAT,
    Cut,
    Manifest,
    cut_folder,
    list_cuts,
    newest_good_cut,
    read_manifest,
    verify_cut,
    write_manifest,
)
from paceline.store.cuts.retention import sweep
from tests.store.conftest import PLAN

TakeCut = Callable[..., str]
DescribeCut = Callable[..., Manifest]
MUTATIONS = 300


@pytest.fixture(autouse=True)
def disarm() -> Iterator[None]:
    yield
    failpoints.arm("")


def path_of(store: BlobStore, name: str) -> Path:
    return Path(store.url) / name


def spoil(store: BlobStore, name: str) -> None:
    path = path_of(store, name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def forge(store: BlobStore, folder: str, manifest: object) -> None:
    """Write a manifest whose check is right, whatever it says."""
    encoded = msgspec.json.encode(manifest)
    path = path_of(store, f"{folder}/manifest.json")
    path.write_bytes(b'{"check":"%s",' % digest(encoded).encode() + encoded[1:])


def changed_plan(**changes: object) -> tuple[PartPlan, ...]:
    """The plan of the small cut, by somebody who means harm."""
    plan = {"placement": dict.fromkeys(range(18), "server-0"), **changes}
    return (msgspec.structs.replace(PLAN, **plan),)


def changed_spec(**changes: object) -> tuple[PartPlan, ...]:
    (parameter,) = PLAN.spec.parameters
    parameters = (msgspec.structs.replace(parameter, **changes),)
    spec = msgspec.structs.replace(PLAN.spec, parameters=parameters)
    blocks = PLAN.blocks
    if "shape" in changes:
        stop = 2**50 if changes["shape"] == (2**50, 3) else 6
        blocks = (Block(0, 0, 0, stop), Block(1, 0, stop, stop + 6))
    return changed_plan(spec=spec, blocks=blocks)


def test_manifest_reads_back_as_it_was(store: BlobStore, describe_cut: DescribeCut) -> None:
    manifest = describe_cut(12, 3)
    write_manifest(store, manifest)
    assert read_manifest(store, "cut-000012-t3") == manifest
    assert verify_cut(store, "cut-000012-t3") == manifest
    raw = path_of(store, "cut-000012-t3/manifest.json").read_bytes()
    assert msgspec.json.decode(raw)["run"] == "run-7"


def test_every_mutation_of_a_cut_is_noticed(store: BlobStore, take_cut: TakeCut) -> None:
    folder = take_cut(1)
    place = path_of(store, folder)
    pristine = {path: path.read_bytes() for path in sorted(place.iterdir())}
    assert len(pristine) == 3
    dice = random.Random(1)
    for number in range(MUTATIONS):
        path = list(pristine)[number % 3]
        data = bytearray(pristine[path])
        position = dice.randrange(len(data))
        kind = dice.choice(["flip", "truncate", "grow", "swap case", "remove"])
        if kind == "truncate":
            del data[position:]
        elif kind == "grow":
            data.insert(position, dice.randrange(256))
        elif kind == "swap case" and bytes(data[position : position + 1]).isalpha():
            data[position] ^= 0x20
        else:
            data[position] ^= 1 << dice.randrange(8)
        if kind == "remove":
            path.unlink()
        else:
            path.write_bytes(data)
        with pytest.raises(CheckpointCorrupt, match=path.name):
            verify_cut(store, folder)
        path.write_bytes(pristine[path])
    verify_cut(store, folder)


def test_older_cut_is_taken_and_the_skipped_one_named(
    store: BlobStore, take_cut: TakeCut
) -> None:
    take_cut(1)
    take_cut(2)
    spoil(store, f"{take_cut(3)}/server-1.bin")
    path_of(store, f"{take_cut(4)}/manifest.json").write_bytes(b"")
    good = newest_good_cut(store)
    assert good.manifest is not None
    assert good.manifest.cut == 2
    assert ["cut-000004-t1" in good.skipped[0], "server-1.bin" in good.skipped[1]] == [
        True
    ] * 2


def test_no_cut_is_told_from_no_good_cut(store: BlobStore, take_cut: TakeCut) -> None:
    assert newest_good_cut(store) == (None, ())
    spoil(store, f"{take_cut(1)}/manifest.json")
    spoil(store, f"{take_cut(2)}/server-0.bin")
    with pytest.raises(CheckpointCorrupt, match=r"none of 2 cuts.*server-0\.bin.*manifest"):
        newest_good_cut(store)


def test_crash_between_files_and_manifest_leaves_the_older_cut(
    store: BlobStore, take_cut: TakeCut
) -> None:
    take_cut(1)
    failpoints.arm("store.before_manifest=error@1")
    with pytest.raises(InjectedFault):
        take_cut(2)
    assert store.folders() == ["cut-000001-t1", "cut-000002-t1"]
    assert newest_good_cut(store).manifest == read_manifest(store, "cut-000001-t1")
    with pytest.raises(CheckpointCorrupt, match="never committed"):
        read_manifest(store, "cut-000002-t1")


def test_crash_after_the_manifest_leaves_the_newer_cut(
    store: BlobStore, take_cut: TakeCut
) -> None:
    take_cut(1)
    failpoints.arm("store.after_manifest=error@1")
    with pytest.raises(InjectedFault):
        take_cut(2)
    assert newest_good_cut(store).manifest == read_manifest(store, "cut-000002-t1")


def test_cuts_of_a_newer_timeline_are_newer(store: BlobStore, take_cut: TakeCut) -> None:
    for cut, timeline in [(9, 1), (10, 1), (9, 2), (1_000_000, 1)]:
        take_cut(cut, timeline)
    path_of(store, "cut-7-t1").mkdir()
    path_of(store, "notes").mkdir()
    cuts = [(cut, timeline) for cut, timeline, _ in list_cuts(store)]
    assert cuts == [(9, 1), (10, 1), (1_000_000, 1), (9, 2)]
    good = newest_good_cut(store)
    assert good.manifest is not None
    assert good.manifest.timeline == 2


def test_cut_is_committed_once(store: BlobStore, describe_cut: DescribeCut) -> None:
    manifest = describe_cut(1)
    write_manifest(store, manifest)
    with pytest.raises(StoreError, match="the name is taken"):
        write_manifest(store, msgspec.structs.replace(manifest, run="another"))
    assert read_manifest(store, cut_folder(1, 1)) == manifest


def test_manifest_of_files_that_are_not_there_is_not_written(
    store: BlobStore, describe_cut: DescribeCut
) -> None:
    manifest = describe_cut(1)
    store.remove("cut-000001-t1/server-1.bin")
    with pytest.raises(CheckpointCorrupt, match=r"server-1\.bin: the file is missing"):
        write_manifest(store, manifest)
    assert list_cuts(store) == []


def test_manifest_that_json_cannot_tell_is_not_written(
    store: BlobStore, describe_cut: DescribeCut
) -> None:
    manifest = describe_cut(1)
    (plan,) = manifest.plans
    optimizer = OptimizerSpec("Adam", ({"lr": float("inf")},))
    spec = msgspec.structs.replace(plan.spec, optimizer=optimizer)
    plans = (msgspec.structs.replace(plan, spec=spec),)
    with pytest.raises(StoreError, match="hyper-parameter not finite"):
        write_manifest(store, msgspec.structs.replace(manifest, plans=plans))
    with pytest.raises(StoreError, match="expected the queue's xxh3"):
        write_manifest(store, msgspec.structs.replace(manifest, queue=b"other"))
    assert list_cuts(store) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": {"../s": (FileEntry("a", 1, ""),)}}, "cannot be the name"),
        ({"files": {"s": (FileEntry("a", -1, ""),)}}, "a cannot have -1 bytes"),
        ({"cut": -1}, "cut -1 of timeline 1 cannot be"),
        ({"plans": (PLAN, PLAN)}, r"the parts \[0, 0\] cannot be"),
        ({"plans": changed_plan(num_row_slots=2**60)}, "slots are planned, 18 placed"),
        ({"plans": changed_plan(num_row_slots=-1)}, "slots are planned"),
        ({"plans": changed_plan(blocks=PLAN.blocks[:1])}, "17 slots are planned"),
        ({"plans": changed_plan(blocks=(Block(0, 1, 0, 6), PLAN.blocks[1]))}, "is none"),
        (
            {"plans": changed_plan(blocks=(Block(0, 0, 0, 2**50), PLAN.blocks[1]))},
            "is not in",
        ),
        ({"plans": changed_spec(shape=(2**50, 3))}, r"part 0: .*its blocks|its files only"),
        ({"plans": changed_spec(dtype="object")}, "cannot be a parameter"),
        ({"plans": changed_spec(shape=(-4, -3))}, "cannot be a parameter"),
        ({"plans": changed_plan(placement=dict.fromkeys(range(18), "../x"))}, "a server"),
        ({"files": {"s": (FileEntry("../../key", 1, ""),)}}, "cannot be the name"),
        ({"files": {"s": (FileEntry("/etc/passwd", 1, ""),)}}, "cannot be the name"),
        ({"files": {"s": (FileEntry("manifest.json", 1, ""),)}}, "cannot be the name"),
        ({"files": {"s": (FileEntry("a", 1, ""),) * 2}}, "two servers wrote one file"),
        ({"cut": 2}, "belongs into cut-000002-t1"),
        ({"queue_xxh3": "0" * 16}, "expected the queue's xxh3"),
    ],
)
def test_hostile_manifest_is_refused(
    store: BlobStore, take_cut: TakeCut, change: dict[str, object], message: str
) -> None:
    folder = take_cut(1)
    manifest = read_manifest(store, folder)
    forge(store, folder, msgspec.structs.replace(manifest, **change))
    with pytest.raises(CheckpointCorrupt, match=message):
        verify_cut(store, folder)


def test_huge_manifest_is_not_read(
    store: BlobStore, take_cut: TakeCut, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = take_cut(1)
    monkeypatch.setattr(manifest_module, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(CheckpointCorrupt, match="bytes, allowed 100"):
        read_manifest(store, folder)


def test_a_manifest_that_nobody_could_read_is_not_written(
    store: BlobStore, describe_cut: DescribeCut, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = describe_cut(1)
    monkeypatch.setattr(manifest_module, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(StoreError, match=r"cannot be written: it has [0-9,]+ bytes"):
        write_manifest(store, manifest)
    assert list_cuts(store) == []


def test_unknown_format_is_refused_and_not_skipped(
    store: BlobStore, take_cut: TakeCut
) -> None:
    take_cut(1)
    folder = take_cut(2)
    forge(store, folder, {"format": FORMAT + 1, "of": "the future"})
    known = f"format {FORMAT + 1}, but this paceline reads format {FORMAT - 1} and {FORMAT}"
    with pytest.raises(StoreError, match=known) as e:
        newest_good_cut(store)
    assert not isinstance(e.value, CheckpointCorrupt)
    forge(store, folder, {"format": FORMAT, "of": "nobody"})
    with pytest.raises(CheckpointCorrupt, match="not a manifest"):
        read_manifest(store, folder)


def test_an_older_cut_than_one_is_found_past_those_that_are_damaged(
    store: BlobStore, take_cut: TakeCut
) -> None:
    folders = [take_cut(1), take_cut(2), take_cut(3), take_cut(4, timeline=2)]
    spoil(store, f"{folders[1]}/server-0.bin")
    third = Cut(3, 1, folders[2])
    found = newest_good_cut(store, older_than=third)
    assert found.manifest is not None
    assert found.manifest.cut == 1
    assert [folders[1] in text for text in found.skipped] == [True]
    assert newest_good_cut(store, Cut(1, 1, folders[0])) == (None, ())


def test_manifests_work_on_an_object_store(tmp_path: Path) -> None:
    store = BlobStore(f"memory://manifests-{tmp_path.name}")
    for cut in (1, 2):
        entry = store.write(f"{cut_folder(cut, 1)}/server-0.bin", [b"rows"])
        manifest = Manifest(
            run="r",
            cut=cut,
            timeline=1,
            files={"server-0": (entry,)},
            plans=(),
            rounds={},
            queue=b"",
            queue_xxh3=digest(b""),
            created=0.0,
        )
        write_manifest(store, manifest)
    assert newest_good_cut(store) == (manifest, ())
    assert sweep(store, 1, "cut-000002-t1") == ("cut-000001-t1",)
    assert list_cuts(store) == [(2, 1, "cut-000002-t1")]
