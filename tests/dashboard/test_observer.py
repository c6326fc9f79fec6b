"""An observer says what it has not seen, and forecasts what somebody looks at."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.config import JobConfig
from paceline.dashboard import Observer
from paceline.dashboard.foreseen import EVERY_S, LOOKED_S
from paceline.events import EventLog
from paceline.launch.job import JobDir
from paceline.timing import ManualClock
from tests.dashboard.test_foreseen import STRAGGLER
from tests.watch.summaries import summary
from tests.watch.test_progress import status


def marks(observer: Observer) -> list[str]:
    observer.look()
    return [text for _, _, text in json.loads(observer.beat.now)["marks"]]


def test_events_that_were_gone_before_they_were_read_are_a_mark(tmp_path: Path) -> None:
    job = JobDir(tmp_path)
    observer = Observer(job, "job", ManualClock())
    log = EventLog(job.events, most_bytes=220)
    log.write("Scaled", {"trainers": 1})
    assert marks(observer) == ["1 trainers are wanted"]

    for n in range(2, 20):
        log.write("Scaled", {"trainers": n})
    log.close()

    told = marks(observer)
    assert told.count("events before this were gone before they were read") == 1
    assert told[-1] == "19 trainers are wanted"
    observer.close()


def trained(folder: Path) -> JobDir:
    """The folder of a job that has ended, as `STRAGGLER` was measured."""
    job = JobDir(folder)
    job.claim(JobConfig(run="r", trainers=STRAGGLER.trainers), "train.py")
    read, compute, *waits = 0.1, STRAGGLER.shares[0] - 0.1, *STRAGGLER.shares[1:]
    per_s = (read, compute, *waits)
    events: list[dict[str, Any]] = [
        {"t": 0.0, "event": "RunBegun"},
        {"t": 0.0, "event": "StageRegistered", "spec": {"batch_size": 20}},
        *(
            {
                "t": t,
                "event": "progress",
                "records": STRAGGLER.rate * t,
                "spent": {f"trainer-{n}": [s * t for s in per_s] for n in range(4)},
            }
            for t in (1.0, 61.0)
        ),
        *STRAGGLER.computed,
        {"t": 61.0, "event": "closed"},
    ]
    job.events.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in events))
    said = summary(job_dir=str(job.path), rate=STRAGGLER.rate)
    job.write_end(status(10), said.as_dict())
    return job


def foreseen(observer: Observer) -> dict[str, Any]:
    observer.look()
    told: dict[str, Any] = json.loads(observer.beat.now)["foreseen"]
    return told


@pytest.fixture
def job(tmp_path: Path) -> JobDir:
    return trained(tmp_path)


@pytest.fixture
def observer(job: JobDir) -> Iterator[Observer]:
    with closing(Observer(job, "job", ManualClock())) as made:
        made.look()
        yield made


def test_a_job_is_forecast_as_its_folder_tells_it(observer: Observer) -> None:
    assert observer.foresee()

    told = foreseen(observer)
    assert told["measured"] == list(STRAGGLER.shares)
    assert told["rates"][0] == pytest.approx(STRAGGLER.rate, abs=0.1)
    assert [name for name, *_ in told["paces"]] == ["sync:backup=1", "async"]


def test_only_who_looks_at_a_job_that_runs_is_told_commands(
    observer: Observer, job: JobDir
) -> None:
    observer.foresee()
    assert "commands" not in foreseen(observer), "as in a report, for somebody else"

    observer.foresee(with_commands=True)
    command = foreseen(observer)["commands"]["async"]
    assert command == f"paceline pace {job.path} async"


def test_without_a_job_there_is_no_forecast(tmp_path: Path) -> None:
    with closing(Observer(JobDir(tmp_path), "job", ManualClock())) as observer:
        assert not observer.foresee()
        assert foreseen(observer) == {}


def test_nobody_who_looks_no_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, made = ManualClock(), []
    observer = Observer(JobDir(tmp_path), "job", clock)
    monkeypatch.setattr(
        Observer, "foresee", lambda *_, **__: made.append(clock.now_s()) or True
    )
    observer.look()
    observer.metrics()  # which tells of none
    observer.foresee_if_due()
    assert made == []

    observer.curves({})  # a page
    observer.foresee_if_due()
    observer.foresee_if_due()
    assert made == [0.0]
    clock.advance(EVERY_S + LOOKED_S)
    observer.foresee_if_due()
    assert made == [0.0], "the page was closed"
    observer.curves({})
    observer.foresee_if_due()
    assert made == [0.0, EVERY_S + LOOKED_S]


def test_a_forecast_that_fails_by_strange_events_says_so(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("seconds: x")

    monkeypatch.setattr("paceline.dashboard.observer.foresee", fail)

    assert observer.foresee()
    assert "cannot be read (seconds: x)" in foreseen(observer)["told"]
