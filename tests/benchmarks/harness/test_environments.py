"""A peer's environment has exactly the versions that are written down."""

import re
from pathlib import Path

import pytest

from benchmarks.harness.environments import (
    OURS,
    PINS,
    PeerNotInstalledError,
    is_current,
    one_thread,
    versions,
    wait_python,
)

PEERS = ("messages", "paddle", "ray", "scikit-learn", "tensorflow")


@pytest.mark.parametrize("peer", PEERS)
def test_every_version_of_a_peer_is_pinned(peer: str) -> None:
    lines = (PINS / f"{peer}.txt").read_text().splitlines()
    assert lines
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert versions(peer)


def test_peers_of_ours_need_no_environment() -> None:
    assert wait_python(OURS).is_file()
    assert versions(OURS) == {}


def test_a_peer_without_pins_is_refused_with_those_that_have_some(tmp_path: Path) -> None:
    with pytest.raises(PeerNotInstalledError, match="'horovod': expected one of factor"):
        wait_python("horovod", folder=tmp_path)


@pytest.mark.slow
def test_what_pip_cannot_do_is_told_and_not_taken_for_installed(tmp_path: Path) -> None:
    pins = tmp_path / "pins"
    pins.mkdir()
    (pins / "none.txt").write_text("./no-such-folder-is-here\n")
    with pytest.raises(PeerNotInstalledError, match="no-such-folder-is-here"):
        wait_python("none", pins, tmp_path / "peers")
    assert not (tmp_path / "peers" / "none" / ".installed").exists()


@pytest.mark.slow
def test_an_environment_is_kept_until_its_versions_change(tmp_path: Path) -> None:
    pins, peers = tmp_path / "pins", tmp_path / "peers"
    pins.mkdir()
    wanted = pins / "empty.txt"
    wanted.write_text("")
    python = wait_python("empty", pins, peers)
    made = python.lstat().st_mtime_ns
    assert wait_python("empty", pins, peers).lstat().st_mtime_ns == made
    wanted.write_text("# one more\n")
    assert not is_current(peers / "empty" / ".installed", wanted)


def test_candidates_compute_with_one_thread() -> None:
    made = one_thread({"OMP_NUM_THREADS": "8", "PYTHONPATH": "elsewhere"})
    assert made["OMP_NUM_THREADS"] == made["TF_NUM_INTRAOP_THREADS"] == "1"
    assert made["PYTHONPATH"].endswith(":elsewhere")
