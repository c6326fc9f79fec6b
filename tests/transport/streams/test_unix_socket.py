"""A path, and the folder that it lies in."""

import os
import socket
from pathlib import Path

import pytest

from paceline.errors import HandshakeRefused, UsageError
from tests.transport.corridors import PATIENCE_S, Memory, Said, Say, UnixCorridor


def test_path_left_by_a_dead_process_is_taken(unix: UnixCorridor, service: Memory) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(unix.path))
    assert unix.path.is_socket()
    unix.listen(service)
    assert unix.connect().call(Say("x"), timeout_s=PATIENCE_S).message == Said("x")


def test_file_that_is_no_socket_stays(unix: UnixCorridor, service: Memory) -> None:
    unix.path.write_text("precious")
    with pytest.raises(UsageError, match="a file that is no socket lies there"):
        unix.listen(service)
    assert unix.path.read_text() == "precious"
    unix.path.unlink()


def test_folder_open_to_others_is_refused(unix: UnixCorridor, service: Memory) -> None:
    unix.folder.chmod(0o755)
    with pytest.raises(UsageError, match=r"mode 0700, got .* mode 0755"):
        unix.listen(service)


def test_missing_folder_is_refused(unix: UnixCorridor, service: Memory) -> None:
    unix.folder.rmdir()
    with pytest.raises(UsageError, match="its folder cannot be used"):
        unix.listen(service)
    unix.folder.mkdir()


def test_close_removes_only_its_own_file(unix: UnixCorridor, service: Memory) -> None:
    listener = unix.listen(service)
    unix.path.unlink()
    unix.path.write_text("a successor's")
    listener.close(PATIENCE_S)
    assert unix.path.exists()
    unix.path.unlink()


def test_close_removes_its_file(unix: UnixCorridor, service: Memory) -> None:
    unix.listen(service).close(PATIENCE_S)
    assert list(Path(unix.folder).iterdir()) == []


def test_processes_of_other_users_are_turned_away(
    unix: UnixCorridor, service: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = unix.listen(service)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(HandshakeRefused, match="only the user who runs the job"):
        unix.connect()
    monkeypatch.undo()
    assert unix.connect().call(Say("x"), timeout_s=PATIENCE_S).message == Said("x")
    listener.close(PATIENCE_S)
    assert listener.counters()["stranger"] == 1
