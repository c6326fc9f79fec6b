"""``paceline simulate``: options become a plan, and forecasts a table, JSON, a picture."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paceline.cli.main import app_of
from paceline.errors import UsageError

SMALL = ["simulate", "--trainers", "3", "--servers", "2", "--steps", "6"]

APP = app_of(["simulate"])


def said(*options: str) -> str:
    result = CliRunner().invoke(APP, [*SMALL, *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_paces_stand_beside_each_other() -> None:
    table = said("--pace", "sync", "--pace", "async:push=2,pull=4")
    assert table.splitlines()[0].split() == ["pace", "sync", "async:push=2,pull=4"]
    for row in (
        "records/s",
        "times the first",
        "updates/s",
        "computes",
        "age of a push",
        "network in",
        "coordinator",
    ):
        assert row in table


def test_json_holds_every_number() -> None:
    found = json.loads(said("--json", "--batch-size", "8", "--parameters", "1MB"))
    [forecast] = found["forecasts"]
    assert forecast["records"] == 3 * 6 * 8
    assert forecast["updates"] == 6
    assert forecast["server"]["bytes_in_per_s"] > 0
    assert 0 < forecast["spells"]["computing"] <= 1


def test_a_whole_job_is_its_records_and_epochs() -> None:
    options = ["--records", "1000", "--epochs", "2", "--batch-size", "10", "--json"]
    result = CliRunner().invoke(
        APP, ["simulate", "--trainers", "3", *options], catch_exceptions=False
    )
    [forecast] = json.loads(result.stdout)["forecasts"]
    assert forecast["records"] == 2000
    assert forecast["batches"] == 200


def test_advice_is_sentences_below_the_table() -> None:
    assert "\n* sync: " in said("--advise")


def test_one_pace_has_none_to_be_compared_with() -> None:
    assert "times the first" not in said()


def test_a_run_says_how_it_computes_and_dies(tmp_path: Path) -> None:
    two_seconds: dict[str, object] = {"seconds": [2.0, 2.0], "mean_s": 2.0}
    told: list[dict[str, object]] = [
        {"event": "TrainerJoined", "trainer": "trainer-0"},
        {"event": "TrainerLost", "trainer": "trainer-0", "kind": "crashed"},
        {"event": "TrainerJoined", "trainer": "trainer-0"},
        {"event": "computed", "trainer": "trainer-0", "batches": 9, **two_seconds},
    ]
    events = tmp_path / "events.jsonl"
    at = (0.0, 10.0, 10.5, 20.5)  # two lives of ten seconds, of which one ended
    lines = [json.dumps({"t": t, **line}) for t, line in zip(at, told, strict=True)]
    events.write_text("\n".join(lines) + "\n")
    [dying] = json.loads(said("--json", "--fit", str(events)))["forecasts"]
    [living] = json.loads(said("--json", "--fit", str(events), "--deaths", "off"))[
        "forecasts"
    ]
    assert sum(dying["deaths"].values()) > 0
    assert not living["deaths"]
    assert living["step_s"] == pytest.approx(2.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_forecast_becomes_a_picture(tmp_path: Path, ending: str, begins: bytes) -> None:
    picture = tmp_path / f"forecast.{ending}"
    said("--pace", "sync", "--pace", "async", "--draw", str(picture))
    assert picture.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--records", "9"], "--steps and --records both say how much"),
        (["--compute", "norml:1"], "--compute: expected fixed"),
        (["--pace", "sinc"], "is not one of"),
        (["--network", "1ms"], "--network: expected LATENCY,BANDWIDTH"),
        (["--parameters", "lots"], "--parameters: expected bytes"),
        (["--trainers", "0"], "trainers: expected 1 or more, got 0"),
        (["--checkpoint-every", "10steps"], "a forecast takes seconds"),
        (["--draw", "forecast.bmp"], "ends with .png or .svg"),
        (["--draw", "nowhere/forecast.png"], "there is no folder"),
        (["--epochs", "2"], "give --records, too"),
        (["--compute", "fixed:1", "--fit", "runs/first"], "--compute and --fit both say"),
        (["--fit", "nowhere"], "--fit: cannot read nowhere"),
    ],
)
def test_what_cannot_be_forecast_is_refused(options: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        CliRunner().invoke(APP, [*SMALL, *options], catch_exceptions=False)
