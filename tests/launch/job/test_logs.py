"""Which logs a job folder has, and that nothing else of it is shown."""

import os
from pathlib import Path

import pytest

from paceline.launch.job.logs import log_kind, log_sizes, read_log


def test_logs_are_named_in_order_with_their_sizes(tmp_path: Path) -> None:
    for name in ("trainer-10", "trainer-2", "coordinator", "server-0"):
        (tmp_path / f"{name}.log").write_text(name)
    (tmp_path / "trainer-2.failure.json").touch()
    (tmp_path / "Mine.log").touch()
    (tmp_path / "x.log").mkdir()
    (tmp_path / "y.log").symlink_to("coordinator.log")

    sizes = log_sizes(tmp_path)
    assert list(sizes) == ["coordinator", "server-0", "trainer-2", "trainer-10"]
    assert sizes["trainer-10"] == 10
    assert log_sizes(tmp_path / "none") == {}


def test_a_log_is_read_from_where_one_is(tmp_path: Path) -> None:
    (tmp_path / "trainer-0.log").write_text("abcdef")
    assert read_log(tmp_path, "trainer-0", 2, most=3) == b"cde"
    assert read_log(tmp_path, "trainer-0", 6) == b""
    assert read_log(tmp_path, "trainer-0", 1 << 63) == b""


@pytest.mark.parametrize("name", ["../secret", "", "link", "pipe", "none", "a/b-1", "A"])
def test_what_is_no_log_is_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("!")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link.log").symlink_to(tmp_path / "secret.log")
    os.mkfifo(logs / "pipe.log")
    with pytest.raises(OSError):  # noqa: PT011  (which one, the kernel says)
        read_log(logs, name, 0)


def test_a_log_has_the_kind_of_its_role() -> None:
    assert log_kind("trainer-12") == "trainer"
    assert log_kind("coordinator") == "coordinator"
    assert log_kind("trainer-") is None
    assert log_kind("./trainer") is None
