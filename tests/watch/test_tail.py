"""An event log is read as it is written, and past the place where it moves on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.events import EventLog
from paceline.watch.tail import Tail


class WatchedPath(type(Path())):  # type: ignore[misc]  # of whatever kind it is here
    """A path behind whose back something happens, once, when it is looked at."""

    happens: list[Callable[[], None]]

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        while self.happens:
            self.happens.pop()()
        return super().stat(follow_symlinks=follow_symlinks)


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
    log = EventLog(path, most_bytes=220)
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
    log = EventLog(path, most_bytes=220)
    for n in range(8):
        log.write(f"e{n}", {})
    log.close()

    tail = Tail(path)
    read = [name for _ in range(4) for name in names(tail)]
    tail.close()

    assert "EventsMoved" in read
    assert [name for name in read if name != "EventsMoved"][-1] == "e7"


def test_a_log_is_read_on_from_a_place_also_behind_where_it_moved(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=220)
    read, place = [], None
    for n in range(40):
        log.write(f"e{n}", {})
        if n % 3 == 0:
            tail = Tail(path, place)
            while found := names(tail):
                read += found
            assert not tail.has_gap
            place = tail.place
            tail.close()
    log.close()

    assert [name for name in read if name != "EventsMoved"] == [f"e{n}" for n in range(40)]


def test_a_place_in_a_log_that_is_gone_is_told_and_what_is_there_is_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event":"a"}\n{"event":"b"}\n')
    gone = Tail(path)
    gone.read()
    path.write_bytes(b'{"event":"c"}\n')

    tail = Tail(path, gone.place)

    assert names(tail) == ["c"]
    assert tail.has_gap
    tail.close()
    gone.close()


def test_lines_between_the_last_look_and_the_move_are_not_left_out(tmp_path: Path) -> None:
    path = WatchedPath(tmp_path / "events.jsonl")
    path.happens = []
    log = EventLog(Path(path), most_bytes=220)
    log.write("first", {})
    tail = Tail(path)
    assert names(tail) == ["first"]

    def writes_until_it_moves() -> None:
        for n in range(8):
            log.write(f"e{n}", {})

    path.happens.append(writes_until_it_moves)
    read = [name for _ in range(4) for name in names(tail)]
    log.close()
    tail.close()

    assert not path.happens
    assert [name for name in read if name != "EventsMoved"] == [f"e{n}" for n in range(8)]
    assert "EventsMoved" in read


def test_a_log_that_moves_on_twice_between_two_looks_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=220)
    log.write("first", {})
    tail = Tail(path)
    assert names(tail) == ["first"]
    for n in range(9):
        log.write(f"e{n}", {})

    read = [name for _ in range(6) for name in names(tail)]
    log.close()
    tail.close()

    assert [name for name in read if name != "EventsMoved"] == [f"e{n}" for n in range(9)]
    assert read.count("EventsMoved") == 2
    assert not tail.has_gap


def test_a_file_that_moved_away_unread_between_two_looks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, most_bytes=220)
    log.write("first", {})
    tail = Tail(path)
    assert names(tail) == ["first"]
    log.close()
    log = EventLog(path, most_bytes=220)  # as after a restart of the coordinator
    for n in range(20):
        log.write(f"e{n}", {})

    assert "e0" in names(tail), "of the file that is open still"
    assert not tail.has_gap
    assert names(tail)[0] == "EventsMoved"
    assert tail.has_gap
    tail.has_gap = False
    read = [name for _ in range(6) for name in names(tail)]
    log.write("last", {})
    assert [*read, *names(tail), *names(tail)][-1] == "last"
    assert not tail.has_gap
    log.close()
    tail.close()


def test_moves_that_an_older_version_has_not_numbered_are_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"t":1.0,"event":"a"}\n')
    tail = Tail(path)
    assert names(tail) == ["a"]
    path.rename(tmp_path / "events.old.jsonl")
    path.write_bytes(b'{"t":2.0,"event":"EventsMoved","to":"x","began":1.0}\n')

    assert [*names(tail), *names(tail)] == ["EventsMoved"]
    assert not tail.has_gap
    tail.close()
