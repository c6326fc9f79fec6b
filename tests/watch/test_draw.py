"""A run as a picture."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paceline.errors import UsageError
from paceline.events import older
from paceline.watch import draw
from paceline.watch.draw import MOST_METRICS, draw_run, lanes
from paceline.watch.history import History, read_history
from paceline.watch.pictures import import_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def eventful(*numbers: str) -> History:
    """Two runs of a job: a death, another pace, another trainer, and a return."""

    def moved(t: float, records: int, **own: int) -> dict[str, object]:
        return {"t": t, "event": "progress", "records": records, "trainers": own}

    def logged(t: float, trainer: str, records: int, value: float) -> dict[str, object]:
        values = {name: value + n for n, name in enumerate(numbers)}
        told = {"trainer": trainer, "records": records, "numbers": values}
        return {"t": t, "event": "log", **told}

    events: list[dict[str, object]] = [
        {"t": 0.0, "event": "RunBegun", "run": "a"},
        logged(9.0, "trainer-0", 90, 4.0),
        logged(9.0, "trainer-1", 90, 2.0),
        moved(10.0, 100, **{"trainer-0": 60, "trainer-1": 40}),
        {"t": 20.0, "event": "TrainerLost", "trainer": "trainer-1", "reason": "silent"},
        {"t": 21.0, "event": "ServerLost", "server": "server-0", "reason": "killed"},
        {"t": 22.0, "event": "TrainerJoined", "trainer": "trainer-1"},
        {"t": 40.0, "event": "PaceChanged", "paces": {"0": "ssp:3"}},
        {"t": 60.0, "event": "Scaled", "trainers": 3},
        moved(80.0, 800, **{"trainer-0": 460, "trainer-1": 340}),
        {"t": 9000.0, "event": "RunBegun", "run": "b"},
        logged(9010.0, "trainer-0", 900, 0.5),
        moved(9020.0, 1000, **{"trainer-0": 200}),
    ]
    return read_history(json.dumps(event).encode() for event in events)


@pytest.fixture
def compose() -> Iterator[Callable[[History], "Figure"]]:
    yield lambda history: draw.compose(history, "a run")
    import_pyplot().close("all")


Compose = Callable[[History], "Figure"]


def texts(axes: "Axes") -> list[str]:
    return [text.get_text() for text in axes.texts]


@pytest.mark.slow
def test_a_picture_has_each_number_over_records_for_each_trainer_and_smoothed(
    compose: Compose,
) -> None:
    top, below, rate, trainers = compose(eventful("loss", "auc")).axes
    labels = [axes.get_ylabel() for axes in (top, below, rate, trainers)]
    assert labels == ["loss", "auc", "records/s", "records by trainer"]
    assert [axes.get_xlabel() for axes in (below, trainers)] == ["records", "seconds"]
    lines = {str(line.get_label()): line for line in top.get_lines()}
    assert [*lines["trainer-0"].get_xdata()] == [90, 900]
    assert [*lines["trainer-0"].get_ydata()] == [4.0, 0.5]
    assert [*lines["trainer-1"].get_ydata()] == [2.0]
    assert [*lines["smoothed"].get_xdata()] == [90, 900]
    assert top.get_legend() is not None
    assert below.get_legend() is None
    assert texts(top) == ["1,000 records  ·  2 deaths"]
    assert texts(trainers) == [" trainer-0", " trainer-1"]


@pytest.mark.slow
def test_a_picture_names_deaths_paces_numbers_of_trainers_and_the_run_that_goes_on(
    compose: Compose,
) -> None:
    top, rate, trainers = compose(eventful("loss")).axes
    assert texts(rate) == [
        "trainer-1 died",
        "server-0 died",
        "ssp:3",
        "3 trainers",
        "resumed",
    ]
    moments = [20.0, 21.0, 22.0, 40.0, 60.0, 80.0]
    assert uprights(rate)[-6:] == uprights(trainers) == moments
    assert uprights(top)[-5:] == [100.0, 100.0, 100.0, 100.0, 800.0], "at these records"


def uprights(axes: "Axes") -> list[float]:
    """Where lines from the bottom to the top are."""
    return [
        float(line.get_xdata()[0])
        for line in axes.get_lines()
        if [*line.get_ydata()] == [0, 1]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 4, 5, 11, 12, MOST_METRICS])
def test_every_logged_number_has_a_panel_of_its_own_the_loss_first(
    compose: Compose, number: int
) -> None:
    names = ["accuracy", *(f"norm-{n}" for n in range(number - 2)), "loss"][-number:]
    *panels, _, _ = compose(eventful(*names)).axes
    shown = [axes.get_ylabel() or axes.get_title(loc="left") for axes in panels]
    assert shown == ["loss", *names[:-1]]
    for axes in panels:
        assert axes.get_lines()
        is_lowest = not any(below(other, axes) for other in panels)
        assert axes.get_xlabel() == ("records" if is_lowest else "")


def below(one: "Axes", other: "Axes") -> bool:
    """Whether one panel is under another one."""
    low, high = one.get_subplotspec(), other.get_subplotspec()
    assert low is not None
    assert high is not None
    columns = set(low.colspan) & set(high.colspan)
    return low.rowspan.start > high.rowspan.start and bool(columns)


@pytest.mark.slow
def test_numbers_without_a_panel_are_named_in_the_picture_with_the_reason(
    compose: Compose,
) -> None:
    names = [f"n{n:02}" for n in range(MOST_METRICS + 2)]
    top, *_ = compose(eventful(*names)).axes
    (headline,) = texts(top)
    assert headline.splitlines()[1] == (
        f"2 numbers have no panel, since a picture holds {MOST_METRICS}: n36, n37"
    )


def test_names_of_marks_do_not_lie_on_each_other() -> None:
    assert lanes([0.1, 0.11, 0.5], ["trainer-1 died", "server-0 died", "ssp:3"]) == [
        0,
        1,
        0,
    ]
    crowd = lanes([0.5 + n / 1e6 for n in range(6)], ["trainer-1 died"] * 6)
    assert crowd == [0, 1, 2, 3, None, None], "the lines tell that there were more"


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
