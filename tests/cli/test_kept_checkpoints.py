"""Checkpoints that older versions have left are listed, verified and exported."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from paceline.cli import main as cli

KEPT = Path(__file__).parents[1] / "kept"
VERSIONS = sorted(path.name for path in KEPT.iterdir() if (path / "job.json").exists())


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["paceline", "checkpoint", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int | None)
    return ended.value.code or 0


@pytest.mark.parametrize("version", VERSIONS)
def test_checkpoints_of_an_older_version_are_read(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    version: str,
) -> None:
    assert call(monkeypatch, "list", KEPT / version) == 0
    assert call(monkeypatch, "verify", KEPT / version) == 0
    assert capsys.readouterr().out.count("whole") == 4
    out = tmp_path / "model.safetensors"
    assert call(monkeypatch, "export", KEPT / version, "--out", out) == 0
    found = load_file(out)
    dense = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"}
    means = {"running_mean", "running_var", "num_batches_tracked", "weight", "bias"}
    assert found.keys() == dense | {f"norm.{name}" for name in means}
    assert found["norm.num_batches_tracked"] == 1
    assert "a version that did not keep frozen parameters" in capsys.readouterr().err
