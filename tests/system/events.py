"""What has happened in a job so far, by its event log."""

import json
from pathlib import Path


def events_of(job: Path, name: str) -> list[dict[str, object]]:
    """All lines of one kind; the last one may just be being written."""
    path = job / "events.jsonl"
    if not path.is_file():
        return []
    lines = path.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event for event in found if event["event"] == name]
