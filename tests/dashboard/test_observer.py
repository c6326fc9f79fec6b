"""An observer says what it has not seen."""

import json
from pathlib import Path

from paceline.dashboard import Observer
from paceline.events import EventLog
from paceline.launch.job import JobDir
from paceline.timing import ManualClock


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
