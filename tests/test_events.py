"""The event log: a line for each happening, and never more than two files of them."""

import errno
import json
import os
from pathlib import Path

import pytest

from paceline.events import EventLog, event_lines, older


def names(path: Path) -> list[str]:
    return [json.loads(line)["event"] for line in event_lines(path)]


def test_happenings_of_one_moment_are_lines_with_one_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.write_all([("A", {"n": 1}), ("B", {"n": 2})])
    log.write("C", {})
    log.close()
    first, second, third = [json.loads(line) for line in event_lines(path)]
    assert (first["event"], first["n"], second["event"], second["n"]) == ("A", 1, "B", 2)
    assert first["t"] == second["t"] <= third["t"]


def test_a_full_log_goes_on_in_a_new_file_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=400)
    for number in range(8):
        log.write(f"E{number}", {"text": "x" * 30})
    log.close()
    assert older(path).name == "events.old.jsonl"
    moved = json.loads(path.read_bytes().splitlines()[0])
    assert (moved["event"], moved["to"]) == ("EventsMoved", "events.old.jsonl")
    assert [n for n in names(path) if n != "EventsMoved"] == [f"E{n}" for n in range(8)]


def test_a_log_without_end_takes_the_room_of_two_files(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    began = None
    for _ in range(3):  # as after restarts of the coordinator
        log = EventLog(path, most_bytes=1000)
        for number in range(200):
            log.write("E", {"n": number})
            began = began or json.loads(path.read_bytes().splitlines()[0])["t"]
        log.close()
    assert len(list(tmp_path.iterdir())) == 2
    assert path.stat().st_size + older(path).stat().st_size <= 2000 + 200
    moved = [json.loads(line) for line in event_lines(path)]
    moves = [line for line in moved if line["event"] == "EventsMoved"]
    assert {line["began"] for line in moves} == {began}
    assert moves[1]["number"] == moves[0]["number"] + 1 > 3, "also after restarts"


def test_a_log_that_is_not_there_is_no_empty_log(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(event_lines(tmp_path / "events.jsonl"))


def test_a_disk_that_is_full_from_the_start_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "open", refuse)
        log = EventLog(tmp_path / "events.jsonl")
        log.write_all([("A", {}), ("B", {})])
    assert log.num_lost == 2
    log.write("C", {})
    log.close()
    assert names(tmp_path / "events.jsonl") == ["EventsLost", "C"]


def test_space_that_is_back_takes_whole_lines_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.write("A", {})
    write = os.write

    def half(file: int, data: memoryview) -> int:
        if len(data) <= 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:-20])

    with monkeypatch.context() as full:
        full.setattr(os, "write", half)
        log.write_all([("B", {}), ("C", {})])
    log.write("D", {})
    log.close()
    assert names(path) == ["A", "EventsLost", "D"]
    assert json.loads(path.read_bytes().splitlines()[1])["number"] == 2
    assert log.num_lost == 2
