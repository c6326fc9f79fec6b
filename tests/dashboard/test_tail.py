"""An event log is read as it is written, and past the place where it moves on."""

from pathlib import Path

from paceline.dashboard.tail import Tail
from paceline.events import EventLog


def names(tail: Tail) -> list[str]:
    return [str(event["event"]) for event in tail.read()]


def test_lines_are_read_once_each_and_only_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert names(tail) == []

    path.write_bytes(b'{"event":"a"}\n{"event":')
    assert names(tail) == ["a"]
    with path.open("ab") as log:
        log.write(b'"b"}\nno json\n{"event":"c"}\n')

    assert names(tail) == ["b", "c"]
    assert names(tail) == []
    tail.close()


def test_a_log_that_moves_on_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=200)
    tail = Tail(path)
    written, read = [], list[str]()
    for n in range(40):
        written.append(f"e{n}")
        log.write(f"e{n}", {})
        read += [name for _ in range(3) for name in names(tail)]
    log.close()
    tail.close()

    assert [name for name in read if name != "EventsMoved"] == written


def test_what_was_moved_before_is_read_first(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=200)
    for n in range(6):
        log.write(f"e{n}", {})
    log.close()

    tail = Tail(path)
    read = [name for _ in range(4) for name in names(tail)]
    tail.close()

    assert "EventsMoved" in read
    assert [name for name in read if name != "EventsMoved"][-1] == "e5"
