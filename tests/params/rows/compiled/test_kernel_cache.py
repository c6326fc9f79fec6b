"""Compiled loops are kept where nobody else can have put them, or nowhere."""

import logging
import os
from pathlib import Path

import numba
import pytest
from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator

from paceline.params.rows.compiled import kernel_cache
from paceline.params.rows.compiled.kernel_cache import find_place


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that can be written to."""

    def refuse(_: object) -> None:
        raise OSError(30, "Read-only file system")

    for locator in (InTreeCacheLocator, UserWideCacheLocator):
        monkeypatch.setattr(locator, "ensure_cache_path", refuse)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def compiled() -> None:
    """What numba would compile."""


def test_where_numba_has_a_place_of_its_own_nothing_changes(tmp_path: Path) -> None:
    assert find_place(compiled)
    assert not numba.config.CACHE_DIR
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_installation_has_a_private_folder(temporary: Path) -> None:
    assert find_place(compiled)

    folder = Path(numba.config.CACHE_DIR)
    assert folder == temporary / f"paceline-cache-{os.geteuid()}"
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert find_place(compiled)  # the next process finds it


def refused(caplog: pytest.LogCaptureFixture) -> str:
    """Why no place was found."""
    with caplog.at_level(logging.WARNING):
        assert not find_place(compiled)
    assert not numba.config.CACHE_DIR
    assert "every process compiles them" in caplog.text
    return caplog.text


def test_a_folder_that_others_may_write_to_is_not_used(
    temporary: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = temporary / f"paceline-cache-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)

    assert "with mode 0700, got one of user" in refused(caplog)


def test_a_folder_of_somebody_else_is_not_used(
    temporary: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    (temporary / f"paceline-cache-{os.geteuid()}").mkdir(mode=0o700)

    assert f"expected a folder of user {os.geteuid()}" in refused(caplog)


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder_is_not_used(
    temporary: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    folder = temporary / f"paceline-cache-{os.geteuid()}"
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere") if kind == "link" else folder.touch(0o700)

    assert "expected a folder" in refused(caplog)


def test_where_no_folder_can_be_made_there_is_none(
    temporary: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(temporary / "gone" / "too"))

    assert "No such file or directory" in refused(caplog)


def test_it_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(kernel_cache, "find_place", asked.append)
    kernel_cache.is_kept_at_all.cache_clear()
    kernel_cache.is_kept_at_all()
    kernel_cache.is_kept_at_all()
    assert len(asked) == 1
    kernel_cache.is_kept_at_all.cache_clear()
