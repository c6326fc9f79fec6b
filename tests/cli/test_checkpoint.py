"""What a job has saved can be listed, verified and given to a plain model."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from paceline.cli import main as cli
from paceline.config import Adagrad, Async, JobConfig, Uniform
from paceline.launch.job.folder import JobDir
from paceline.messages.shared import (
    OptimizerSpec,
    ParameterSpec,
    PartPlan,
    PartSpec,
    TableSpec,
)
from paceline.params.blocks import cut_blocks
from paceline.params.shard import ParameterShard
from paceline.server.snapshots import CutShare, write_share
from paceline.store.blobs.blobs import BlobStore, digest
from paceline.store.cuts.claims import Claim, claim_place
from paceline.store.cuts.manifest import Manifest, cut_folder, read_manifest, write_manifest

SERVERS = ("server-0", "server-1")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 4, bias=False)
        self.decode = nn.Linear(6, 4)
        self.decode.weight = self.encode.weight
        self.scale = nn.Parameter(torch.zeros((), dtype=torch.bfloat16))


def make_plan(part: int, first_slot: int, table: str) -> PartPlan:
    parameters = (
        ParameterSpec(("encode.weight", "decode.weight"), (4, 6), "float32"),
        ParameterSpec(("decode.bias",), (4,), "float32"),
        ParameterSpec(("scale",), (), "bfloat16"),
    )
    tables = (TableSpec(table, 2, Adagrad(), Uniform(0.1)),)
    optimizer = OptimizerSpec("Adam", ({"lr": 0.1},))
    spec = PartSpec(part, parameters, optimizer, tables, Async())
    blocks = cut_blocks(parameters, 2, first_slot=first_slot, min_block=8)
    first_row = first_slot + len(blocks)
    placement = {s: SERVERS[s % 2] for s in range(first_slot, first_row + 4)}
    return PartPlan(spec, blocks, first_row, 4, placement)


def take_cut(store: BlobStore, cut: int, plans: tuple[PartPlan, ...]) -> float:
    """Commit a cut whose every number is drawn; the sum of all rows."""
    random = np.random.default_rng(cut)
    files, total = {}, 0.0
    for server in SERVERS:
        shard = ParameterShard()
        for plan in plans:
            shard.create(plan, server, seed=1)
            for slot in sorted(shard.blocks.keys() & {b.slot for b in plan.blocks}):
                values = shard.blocks[slot].values
                values.copy_(torch.from_numpy(random.normal(size=len(values))))
                shard.blocks[slot].apply(torch.ones_like(values), {"lr": 0.1})
            rows = range(plan.first_row_slot, plan.first_row_slot + plan.num_row_slots)
            for slot in sorted(shard.rows.keys() & set(rows)):
                ids = random.permutation(20)[:5] + 100 * slot
                table = shard.rows[slot][plan.spec.tables[0].name]
                table.apply(ids, random.normal(size=(5, 2)).astype(np.float32))
                total += float(table.export()["values"].sum())
        share = CutShare({slot: shard.export(slot) for slot in shard.slots()}, {}, {})
        files[server] = (write_share(store, cut_folder(cut, 0), server, share),)
    write_manifest(
        store,
        Manifest(
            run="r",
            cut=cut,
            timeline=0,
            files=files,
            plans=plans,
            rounds={},
            queue=b"",
            queue_xxh3=digest(b""),
            created=1.75e9,
            records=100 * cut,
            steps=10 * cut,
        ),
    )
    return total


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    store = BlobStore(str(tmp_path / "cuts"))
    for cut in (1, 2):
        take_cut(store, cut, (make_plan(0, 0, "user"),))
    return store


def spoil(store: BlobStore, cut: int) -> None:
    path = Path(store.url) / cut_folder(cut, 0) / "server-1.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["paceline", "checkpoint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int | None)
    return ended.value.code or 0, said.out, said.err


def test_cuts_are_listed_with_what_they_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: BlobStore
) -> None:
    spoil(store, 2)
    code, out, _ = call(monkeypatch, capsys, "list", store.url, "--json")
    cuts = json.loads(out)["cuts"]
    assert code == 0
    told = [(c["cut"], c["timeline"], c["records"], c["steps"], c["state"]) for c in cuts]
    assert told == [(1, 0, 100, 10, "whole"), (2, 0, 200, 20, "damaged")]
    assert "server-1.safetensors: expected xxh3" in cuts[1]["problem"]
    assert cuts[0]["bytes"] > 0
    _, out, _ = call(monkeypatch, capsys, "list", store.url, "--quick")
    assert out.count("not read") == 2, "who reads nothing promises nothing"


def test_verifying_reads_every_byte_and_says_so_by_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: BlobStore
) -> None:
    assert call(monkeypatch, capsys, "verify", store.url)[0] == 0
    spoil(store, 2)
    code, out, _ = call(monkeypatch, capsys, "verify", store.url)
    assert code == 1
    assert "damaged:" in out
    assert call(monkeypatch, capsys, "verify", store.url, "--cut", 1)[0] == 0
    code, _, err = call(monkeypatch, capsys, "verify", store.url, "--cut", 7)
    assert code == 2
    assert "has the cuts 1, 2, got --cut 7" in err


def test_an_export_is_what_a_plain_model_loads(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store: BlobStore,
    tmp_path: Path,
) -> None:
    total = take_cut(store, 3, (make_plan(0, 0, "user"),))
    out = tmp_path / "model.safetensors"
    code, said, _ = call(monkeypatch, capsys, "export", store.url, "--out", out, "--json")
    assert code == 0
    assert json.loads(said)["rows"] == {"user": 20}
    model = Net()
    model.load_state_dict(load_file(out))
    pieces = {}
    for server in SERVERS:
        path = Path(store.url) / cut_folder(3, 0) / f"{server}.safetensors"
        pieces |= load_file(path)
    blocks = [pieces[f"slot/{slot}/values"] for slot in range(4)]
    whole = (
        torch.cat(blocks[:2]).view(4, 6) if len(blocks[0]) < 24 else blocks[0].view(4, 6)
    )
    assert torch.equal(model.encode.weight, whole)
    assert model.encode.weight is model.decode.weight
    rows = load_file(tmp_path / "model.rows.safetensors")
    ids = rows["user.ids"]
    assert torch.equal(ids, ids.sort().values)
    assert rows["user.rows"].shape == (20, 2)
    assert float(rows["user.rows"].sum()) == pytest.approx(total, rel=1e-4)
    slot = make_plan(0, 0, "user").first_row_slot
    own = dict(
        zip(
            pieces[f"slot/{slot}/table/user/ids"].tolist(),
            pieces[f"slot/{slot}/table/user/values"].tolist(),
            strict=True,
        )
    )
    found = dict(zip(ids.tolist(), rows["user.rows"].tolist(), strict=True))
    assert own.items() <= found.items()
    code, _, err = call(monkeypatch, capsys, "export", store.url, "--out", out)
    assert code == 2
    assert "is there already" in err


def test_an_export_passes_over_a_damaged_cut_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    store: BlobStore,
    tmp_path: Path,
) -> None:
    spoil(store, 2)
    code, out, err = call(
        monkeypatch, capsys, "export", store.url, "--out", tmp_path / "a.safetensors"
    )
    assert (code, out.startswith("cut 1:")) == (0, True)
    assert "passed over" in err
    code, _, err = call(
        monkeypatch, capsys, "export", store.url, "--out", tmp_path / "b.x", "--cut", 2
    )
    assert code == 1
    assert "CheckpointCorrupt" in err
    assert not (tmp_path / "b.x").exists()


def test_parts_with_equal_names_are_exported_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = BlobStore(str(tmp_path / "cuts"))
    take_cut(store, 1, (make_plan(0, 0, "user"), make_plan(1, 50, "item")))
    out = tmp_path / "m.safetensors"
    code, _, err = call(monkeypatch, capsys, "export", store.url, "--out", out)
    assert code == 2
    assert "--part" in err
    arguments = ("export", store.url, "--out", out, "--part", 1)
    assert call(monkeypatch, capsys, *arguments)[0] == 0
    assert load_file(tmp_path / "m.rows.safetensors").keys() == {"item.ids", "item.rows"}


def test_a_folder_without_cuts_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = call(monkeypatch, capsys, "list", tmp_path)
    assert code == 2
    assert "is no job folder" in err
    code, _, err = call(monkeypatch, capsys, "list", "nowhere://x")
    assert code == 2
    assert "name a local folder" in err


@pytest.mark.slow
def test_looking_at_cuts_needs_no_torch(store: BlobStore) -> None:
    script = (
        "import sys; from paceline.cli import main; "
        f"sys.argv = ['paceline', 'checkpoint', 'verify', {store.url!r}]\n"
        "try: main.main()\n"
        "except SystemExit as end:\n"
        "    sys.exit((end.code or 0) + 10 * ('torch' in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert ended.returncode == 0


def take_job_cut(store: BlobStore, cut: int, job: str, run: str) -> None:
    """Commit a cut of a job, or of a run of a version that named no job."""
    take_cut(store, cut, (make_plan(0, 0, "user"),))
    folder = cut_folder(cut, 0)
    manifest = msgspec.structs.replace(read_manifest(store, folder), job=job, run=run)
    store.remove(f"{folder}/manifest.json")
    write_manifest(store, manifest)


@pytest.fixture
def mixed(tmp_path: Path) -> BlobStore:
    """A place that job a has claimed, with a newer cut of a version that did not."""
    store = BlobStore(str(tmp_path / "cuts"))
    take_job_cut(store, 1, "a", "a1")
    take_job_cut(store, 2, "a", "a2")
    take_job_cut(store, 3, "", "b1")
    claim_place(store, Claim(job="a", run="a2", holder="process 1", folder="/jobs/a"))
    return store


def job_folder(tmp_path: Path, store: BlobStore, run: str) -> Path:
    job = JobDir(tmp_path / run)
    job.claim(JobConfig(run=run, checkpoints=store.url), "train.py")
    return job.path


def test_a_place_of_two_jobs_is_listed_with_whose_each_cut_is(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mixed: BlobStore,
    tmp_path: Path,
) -> None:
    code, out, _ = call(monkeypatch, capsys, "list", mixed.url, "--json")
    cuts = json.loads(out)["cuts"]
    assert code == 0
    assert [(cut["job"], cut["state"]) for cut in cuts] == [
        ("a", "whole"),
        ("a", "whole"),
        ("run b1", "another job's"),
    ]
    _, out, _ = call(monkeypatch, capsys, "list", job_folder(tmp_path, mixed, "b1"))
    assert out.count("another job's") == 2
    assert "run b1" in out


@pytest.mark.parametrize(("looked_at", "own"), [("the place", 2), ("a", 2), ("b1", 3)])
def test_only_the_jobs_own_cuts_are_verified_and_exported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mixed: BlobStore,
    tmp_path: Path,
    looked_at: str,
    own: int,
) -> None:
    place = (
        mixed.url if looked_at == "the place" else job_folder(tmp_path, mixed, looked_at)
    )
    out = tmp_path / "m.safetensors"
    code, said, err = call(monkeypatch, capsys, "export", place, "--out", out)
    assert (code, said.startswith(f"cut {own}:")) == (0, True)
    assert "passed over" in err
    other = 3 if own == 2 else 2
    code, _, err = call(monkeypatch, capsys, "verify", place, "--cut", other)
    assert code == 2
    spoil(mixed, other)
    assert call(monkeypatch, capsys, "verify", place)[0] == 0
