"""The folder of a job's sockets is private, short, and the only one that is removed."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.launch.job.sockets import (
    hold_sockets,
    make_sockets,
    remove_left,
    remove_sockets,
    remove_unheld,
)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only place for temporary files, with a path that is short enough."""
    path = Path("/tmp") / f"t{os.getpid()}"
    path.mkdir()
    path.rename(tmp_path / "t")  # gone with the test's other files
    path.symlink_to(tmp_path / "t")
    monkeypatch.setattr("tempfile.tempdir", str(path))
    monkeypatch.setattr("paceline.launch.job.sockets._SHORT", path)
    yield path
    path.unlink()


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def left(temporary: Path, name: str = "paceline-run-left") -> Path:
    """A folder with a socket, as a killed launcher leaves it."""
    folder = temporary / name
    folder.mkdir(mode=0o700)
    bind(folder / "server-0.sock")
    return folder


def test_sockets_lie_in_a_private_short_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_folder = tmp_path / ("x" * 100)
    long_folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long_folder))

    folder = make_sockets()
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(str(folder / "coordinator.sock")) < 107
        bind(folder / "coordinator.sock")
    finally:
        remove_sockets(folder)
        remove_sockets(folder)
    assert not folder.exists()
    assert list(long_folder.iterdir()) == []


def test_the_folder_of_a_killed_launcher_is_removed(temporary: Path) -> None:
    folder = left(temporary)
    (folder / "trainer-0.4711").touch()  # where ranks meet

    assert remove_left(folder) is None
    assert not folder.exists()
    assert remove_left(folder) is None


def test_a_folder_of_another_name_or_place_is_kept(temporary: Path, tmp_path: Path) -> None:
    for folder in (left(temporary, "precious"), left(tmp_path, "paceline-run-left")):
        reason = remove_left(folder)
        assert reason is not None
        assert "expected paceline-* in" in reason
        assert (folder / "server-0.sock").exists()


def test_a_folder_that_others_may_write_to_is_kept(temporary: Path) -> None:
    folder = left(temporary)
    folder.chmod(0o755)

    reason = remove_left(folder)

    assert reason is not None
    assert "with mode 0700, got user" in reason
    assert "mode 0755" in reason
    assert (folder / "server-0.sock").exists()


def test_a_folder_of_another_user_is_kept(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = left(temporary)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)

    assert "expected a folder of user" in (remove_left(folder) or "")
    assert (folder / "server-0.sock").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "server-0", "trainer-0.sock"])
def test_a_folder_with_any_file_that_is_none_of_ours_is_kept_whole(
    temporary: Path, name: str
) -> None:
    folder = left(temporary)
    (folder / name).touch()

    assert remove_left(folder) == f"{name!r} in it is no socket"
    assert len(list(folder.iterdir())) == 2


def test_a_link_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    precious = left(tmp_path, "precious")
    (temporary / "paceline-run-link").symlink_to(precious)

    assert "cannot be looked at" in (remove_left(temporary / "paceline-run-link") or "")
    assert (precious / "server-0.sock").exists()


def test_the_next_launcher_removes_what_a_killed_one_has_left(temporary: Path) -> None:
    program = (
        "import os, signal, sys, tempfile, paceline.launch.job.sockets as sockets\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "with sockets.hold_sockets() as folder:\n"
        "    print(folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as launcher:
        assert launcher.stdout is not None
        folder = Path(launcher.stdout.readline().strip())
        with hold_sockets() as ours:
            assert folder.is_dir()
            assert remove_left(folder) == "another job runs with it"
            launcher.kill()
            launcher.wait()
            remove_unheld()
            assert not folder.exists()
            assert ours.is_dir()
    assert list(temporary.iterdir()) == []


def test_no_place_for_temporary_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    told = "cannot make a folder for the job's sockets: .*none.*; set TMPDIR"
    with pytest.raises(UsageError, match=told), hold_sockets():
        pass


def test_folders_of_versions_that_held_none_are_not_taken_for_left(temporary: Path) -> None:
    folder = left(temporary, "paceline-1a2b3c4d")

    remove_unheld()

    assert folder.is_dir()
