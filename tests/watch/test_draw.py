"""A run as a picture."""

import json
import sys
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.events import older
from paceline.watch.draw import MOST_METRICS, draw_run, order_of_panels


def write_events(path: Path, *, with_numbers: bool = True) -> Path:
    events: list[dict[str, object]] = [
        {"t": 0.0, "event": "TrainerJoined", "trainer": "trainer-0"},
        {"t": 0.1, "event": "ServerJoined", "server": "server-0"},
    ]
    for n in range(20):
        trainers = {"trainer-0": n * 60, "trainer-1": n * 40}
        events.append(
            {"t": 1.0 + n, "event": "progress", "records": n * 100, "trainers": trainers}
        )
        numbers = {"auc": 0.5, "loss": 1.0 / (1 + n), "nan": None}
        log = {"t": 1.5 + n, "event": "log", "trainer": "trainer-0", "records": n * 100}
        events += [{**log, "numbers": numbers}] if with_numbers else []
    events.insert(20, {"t": 9.6, "event": "ServerLost", "server": "server-0"})
    events.insert(22, {"t": 10.7, "event": "ServerJoined", "server": "server-0"})
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("with_numbers", [True, False])
def test_a_run_becomes_a_picture(tmp_path: Path, *, with_numbers: bool) -> None:
    events = write_events(tmp_path / "events.jsonl", with_numbers=with_numbers)

    draw_run(events, tmp_path / "run.png", "a run")

    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_that_has_just_begun_again_becomes_a_picture_too(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    moment = {"t": 5.0, "event": "progress", "records": 0}
    events.write_text(json.dumps({"t": 1.0, "event": "RunBegun"}) + "\n")
    older(events).write_text(json.dumps(moment) + "\n")

    draw_run(events, tmp_path / "run.png", "a run")

    assert (tmp_path / "run.png").exists()


def test_every_logged_number_has_a_panel_of_its_own_the_loss_first() -> None:
    assert order_of_panels(["auc", "loss", "norm"]) == (["loss", "auc", "norm"], [])
    many = [f"number-{n}" for n in range(MOST_METRICS + 2)]
    assert order_of_panels(many) == (many[:MOST_METRICS], many[MOST_METRICS:])


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    with pytest.raises(UsageError, match=r"cannot read .*events\.jsonl"):
        draw_run(events, tmp_path / "run.png", "a run")
    events.touch()
    with pytest.raises(UsageError, match="nothing to draw"):
        draw_run(events, tmp_path / "run.png", "a run")


def test_a_missing_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    events = write_events(tmp_path / "events.jsonl")

    with pytest.raises(UsageError, match=r"pip install 'paceline\[plot\]'"):
        draw_run(events, tmp_path / "run.png", "a run")
