"""What a job has saved is all of a plain model: `load_state_dict` takes it, strict."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from paceline.cli import main as cli
from paceline.config import JobConfig, Sync
from paceline.errors import UsageError
from paceline.launch.embedded import EmbeddedJob
from paceline.store.blobs.blobs import BlobStore
from paceline.store.blobs.contents import FOLDER
from paceline.trainer.engine.engine import StepWarning
from paceline.trainer.protocol import joining
from paceline.trainer.session import Session

RECORDS, BATCH = 24, 4


class Net(nn.Module):
    """Frozen, with buffers of several kinds, tied, with a sparse embedding."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.backbone = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
        self.backbone[0].requires_grad_(requires_grad=False)
        self.words = nn.Embedding(5, 3, sparse=True)
        self.head = nn.Linear(3, 4)
        self.again = nn.Linear(3, 4, bias=False)
        self.again.weight = self.head.weight
        self.mask = nn.Parameter(torch.tensor([True, False]), requires_grad=False)
        self.small = nn.Parameter(torch.ones((), dtype=torch.bfloat16), requires_grad=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.count = self.count + 1
        found = self.backbone(x).mean((2, 3)) + self.words(torch.arange(len(x)) % 5)
        out: Tensor = self.head(found) + self.again(found)
        return out


def images() -> Tensor:
    return torch.randn(RECORDS, 1, 6, 6, generator=torch.Generator().manual_seed(2))


def begin(folder: Path, **fields: bool) -> EmbeddedJob:
    config = JobConfig(run="export", trainers=1, servers=2, pace=Sync(), timeout_s=60.0)
    return EmbeddedJob(config, folder, **fields)


def share(session: Session, model: nn.Module) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    return session.share(model, torch.optim.SGD(trained, lr=0.1))


def train(session: Session, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for batch in session.batches(images(), BATCH):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["paceline", "checkpoint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int | None)
    return ended.value.code or 0


def constants(folder: Path) -> list[str]:
    return BlobStore(str(folder / "checkpoints" / FOLDER)).names()


def train_once(folder: Path, seed: int = 1) -> Net:
    job = begin(folder)
    session, model = job.session("trainer-0"), Net(seed)
    train(session, model, share(session, model))
    session.close()
    job.close()
    return model


def test_an_exported_model_is_loaded_strictly_and_predicts_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = begin(tmp_path / "job")
    session, model = job.session("trainer-0"), Net()
    train(session, model, share(session, model))
    predicted: dict[int, Tensor] = {}
    session.predict(model, images(), predicted.__setitem__, batch_size=BATCH)
    session.close()
    job.close()
    out = tmp_path / "model.safetensors"
    assert call(monkeypatch, "export", tmp_path / "job", "--out", out) == 0
    plain = Net(seed=7)
    assert not torch.equal(plain.backbone[0].weight, model.backbone[0].weight)
    plain.load_state_dict(load_file(out))
    plain.eval()
    with torch.no_grad():
        expected = [plain(batch) for batch in images().split(BATCH)]
    found = [torch.as_tensor(values) for _, values in sorted(predicted.items())]
    assert torch.equal(torch.cat(found), torch.cat(expected))
    assert plain.count == RECORDS // BATCH
    assert plain.again.weight is plain.head.weight


def test_a_backbone_of_many_pieces_arrives_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(joining, "PIECE_BYTES", 10)
    model = train_once(tmp_path / "job")
    out = tmp_path / "model.safetensors"
    assert call(monkeypatch, "export", tmp_path / "job", "--out", out) == 0
    found = load_file(out)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            assert torch.equal(found[name], parameter), name


def test_a_cut_before_any_step_says_that_it_has_no_buffers_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    train_once(tmp_path / "job")
    out = tmp_path / "model.safetensors"
    assert call(monkeypatch, "export", tmp_path / "job", "--out", out, "--cut", 0) == 2
    assert "cut 0 has no state of the model's buffers yet" in capsys.readouterr().err
    assert not out.exists()


def test_what_never_changes_is_written_once_and_carried_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    train_once(folder)
    [name] = constants(folder)
    file = folder / "checkpoints" / FOLDER / name
    before = file.stat()
    job = begin(folder, is_resumed=True)
    session, model = job.session("trainer-0"), Net()
    optimizer = share(session, model)
    train(session, model, optimizer)
    train(session, model, optimizer)
    session.save()
    session.close()
    job.close()
    assert constants(folder) == [name], "a sweep has let it be"
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert call(monkeypatch, "verify", folder) == 0
    data = bytearray(file.read_bytes())
    data[3] ^= 1
    file.write_bytes(data)
    assert call(monkeypatch, "verify", folder) == 1
    assert f"{name}: expected xxh3" in capsys.readouterr().out


def test_frozen_parameters_that_differ_are_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    train_once(folder)
    job = begin(folder, is_resumed=True)
    try:
        session = job.session("trainer-0")
        match = r"'backbone.0.weight' is frozen and differs between trainers: part 0 was"
        with pytest.raises(UsageError, match=match):
            share(session, Net(seed=2))
        model = Net()
        model.again.weight = nn.Parameter(torch.ones(4, 3), requires_grad=False)
        with pytest.raises(
            UsageError, match=r"part 0 was first shared otherwise: parameter"
        ):
            share(session, model)
    finally:
        job.close()


def test_a_frozen_parameter_that_the_script_changes_is_told_of(tmp_path: Path) -> None:
    job = begin(tmp_path / "job")
    session, model = job.session("trainer-0"), Net()
    optimizer = share(session, model)
    model.small.data.add_(1)
    with pytest.warns(StepWarning, match=r"'small' was frozen when its model was shared"):
        train(session, model, optimizer)
    session.close()
    job.close()


class Late(nn.Module):
    """Registers a buffer when it is called first."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "seen"):
            self.register_buffer("seen", torch.zeros(()))
        self.seen = self.seen + len(x)
        found: Tensor = self.layer(x.flatten(1)[:, :6])
        return found


def test_a_first_buffer_within_a_loop_is_told_of_and_kept_from_the_next_loop_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = begin(tmp_path / "job")
    session, model = job.session("trainer-0"), Late()
    optimizer = share(session, model)
    with pytest.warns(StepWarning, match=r"'seen' was registered within the loop"):
        train(session, model, optimizer)
    train(session, model, optimizer)
    session.close()
    job.close()
    out = tmp_path / "model.safetensors"
    assert call(monkeypatch, "export", tmp_path / "job", "--out", out) == 0
    assert load_file(out)["seen"] == 2 * RECORDS


def test_buffers_that_are_assigned_anew_survive_a_resume(tmp_path: Path) -> None:
    first = train_once(tmp_path / "job")
    job = begin(tmp_path / "job", is_resumed=True)
    session, model = job.session("trainer-0"), Net()
    optimizer = share(session, model)
    train(session, model, optimizer)  # is over: yields nothing
    for _ in session.batches(images(), BATCH):
        break
    assert first.count == RECORDS // BATCH
    assert model.count == first.count
    session.close()
    job.close()


def test_several_models_are_exported_each_with_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    job = begin(folder)
    session, models = job.session("trainer-0"), [Net(1), Net(2)]
    optimizers = [share(session, model) for model in models]
    for batch in session.batches(images(), BATCH):
        for model, optimizer in zip(models, optimizers, strict=True):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    session.close()
    job.close()
    assert len(constants(folder)) == 2
    assert call(monkeypatch, "export", folder, "--out", tmp_path / "both.safetensors") == 2
    for part, model in enumerate(models):
        out = tmp_path / f"{part}.safetensors"
        assert call(monkeypatch, "export", folder, "--out", out, "--part", part) == 0
        found = load_file(out)
        assert found.keys() == model.state_dict().keys()
        assert all(torch.equal(found[k], v) for k, v in model.state_dict().items())
