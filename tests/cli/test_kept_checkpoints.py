"""Checkpoints that older versions have left are listed, verified and exported."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from paceline.cli import main as cli

KEPT = Path(__file__).parents[1] / "kept"
LAST_CUT = {"1c8c8a6": "cut-000001-t0/server-0.safetensors"}
TRAINED = (
    *("hidden.weight", "hidden.bias", "norm.weight", "norm.bias"),
    *("out.weight", "out.bias"),
)
AVERAGES = {
    "norm.running_mean": [-0.0468736887, -0.0328241326, -0.0202104785],
    "norm.running_var": [0.9000089169, 0.9000155926, 0.9000023603],
}
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
    raw = load_file(KEPT / version / "checkpoints" / LAST_CUT[version])
    for slot, name in enumerate(TRAINED):
        assert found[name].flatten().tolist() == raw[f"slot/{slot}/values"].tolist(), name
    assert found["norm.weight"].tolist() == pytest.approx([0.99] * 3), "Adam took one step"
    for name, values in AVERAGES.items():
        assert found[name].tolist() == pytest.approx(values)
    rows = load_file(out.with_name("model.rows.safetensors"))
    assert sorted(rows["user.ids"].tolist()) == [0, 8, 10, 12, 13, 14]
    raw_row = raw["slot/8/table/user/values"][0].tolist()
    assert rows["user.rows"][rows["user.ids"].tolist().index(0)].tolist() == raw_row
    assert "a version that did not keep frozen parameters" in capsys.readouterr().err
