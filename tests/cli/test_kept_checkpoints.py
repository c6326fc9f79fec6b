"""Checkpoints that older versions have left are listed, verified and exported."""

from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import load_file

from paceline.cli import main as cli

KEPT = Path(__file__).parents[1] / "kept"
TRAINED = (
    *("hidden.weight", "hidden.bias", "norm.weight", "norm.bias"),
    *("out.weight", "out.bias"),
)


class Kept(NamedTuple):
    """What the last cut of a kept folder holds."""

    steps: int
    values: dict[str, list[float]]
    rows: list[int]
    lacks_frozen: bool = False  # the version did not keep frozen parameters


AFTER_ONE_STEP = {
    "norm.weight": [0.99] * 3,
    "norm.running_mean": [-0.0468736887, -0.0328241326, -0.0202104785],
    "norm.running_var": [0.9000089169, 0.9000155926, 0.9000023603],
}
AFTER_FIVE_STEPS = {
    "hidden.bias": [-0.5057845116, -0.3049524426, -0.1813896894],
    "norm.weight": [0.9701571465, 0.9760896564, 0.9554688334],
    "norm.running_mean": [-0.1959864795, -0.1322169751, -0.0759508237],
    "norm.running_var": [0.5924862623, 0.5911323428, 0.5907339454],
}
LAST_CUTS = {
    "1c8c8a6": Kept(1, AFTER_ONE_STEP, [0, 8, 10, 12, 13, 14], lacks_frozen=True),
    "299a7a6": Kept(5, AFTER_FIVE_STEPS, list(range(16))),
    "53f96c1": Kept(5, AFTER_FIVE_STEPS, list(range(16))),
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
    found, kept = load_file(out), LAST_CUTS[version]
    dense = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"}
    means = {"running_mean", "running_var", "num_batches_tracked", "weight", "bias"}
    assert found.keys() == dense | {f"norm.{name}" for name in means}
    assert found["norm.num_batches_tracked"] == kept.steps
    raw = load_file(KEPT / version / "checkpoints/cut-000001-t0/server-0.safetensors")
    for slot, name in enumerate(TRAINED):
        assert found[name].flatten().tolist() == raw[f"slot/{slot}/values"].tolist(), name
    for name, values in kept.values.items():
        assert found[name].tolist() == pytest.approx(values), name
    rows = load_file(out.with_name("model.rows.safetensors"))
    assert sorted(rows["user.ids"].tolist()) == kept.rows
    raw_row = raw["slot/8/table/user/values"][0].tolist()
    raw_id = raw["slot/8/table/user/ids"][0].item()
    assert rows["user.rows"][rows["user.ids"].tolist().index(raw_id)].tolist() == raw_row
    told = "a version that did not keep frozen parameters" in capsys.readouterr().err
    assert told == kept.lacks_frozen


def test_every_kept_folder_has_its_values_here() -> None:
    assert sorted(LAST_CUTS) == VERSIONS
