"""What a system lets a process do: told, held, refused by name."""

import importlib
import os
import select
import sys
import types
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.machine import (
    at_fork,
    hold_file,
    lacking,
    num_cores,
    open_folder,
    own_user,
    require_linux,
)


def test_a_file_is_held_by_one_until_it_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    hold_file(first)
    with pytest.raises(BlockingIOError):
        hold_file(second)
    os.close(first)
    hold_file(second)
    os.close(second)


def test_where_files_cannot_be_held_it_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="no locks of files"):
        hold_file(file)
    os.close(file)


def test_windows_locks_a_byte_behind_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[int, int, int]] = []

    def locking(descriptor: int, mode: int, num_bytes: int) -> None:
        asked.append((mode, num_bytes, os.lseek(descriptor, 0, os.SEEK_CUR)))
        if len(asked) > 1:
            raise PermissionError(13, "Permission denied")

    windows = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    hold_file(file)
    with pytest.raises(BlockingIOError):
        hold_file(file)
    assert asked == [(2, 1, 1 << 30)] * 2
    assert os.lseek(file, 0, os.SEEK_CUR) == 0
    os.close(file)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lacking()
    require_linux("paceline run")
    monkeypatch.delattr(select, "epoll")
    monkeypatch.delattr(os, "fork")
    refused = (
        r"^paceline run needs Linux: \w+ has no forks, no epoll; `python train.py` runs"
    )
    with pytest.raises(UsageError, match=refused):
        require_linux("paceline run")


def test_a_system_that_tells_less_is_asked_for_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("sched_getaffinity", "geteuid", "register_at_fork", "O_DIRECTORY"):
        monkeypatch.delattr(os, name)
    assert num_cores() == os.cpu_count()
    assert own_user() is None
    assert open_folder(tmp_path) is None
    at_fork(after_in_child=lambda: None)


def test_flags_that_are_missing_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import paceline.machine  # noqa: PLC0415  (it is looked at anew)

    for name in ("O_CLOEXEC", "O_NOFOLLOW"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(os, "O_BINARY", 1 << 20, raising=False)
    machine = importlib.reload(paceline.machine)
    assert (machine.AS_BYTES, machine.NO_LINK) == (1 << 20, 0)
    monkeypatch.undo()
    importlib.reload(paceline.machine)
