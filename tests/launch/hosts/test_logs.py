"""What hosts write lies in the launcher's logs once, and says where it was written."""

import os
from pathlib import Path

import pytest

from paceline.launch.hosts.log_pieces import REPORT_BYTES
from paceline.launch.hosts.logs import HostLogs, KeptLogs
from paceline.launch.hosts.roster import Host
from paceline.launch.job import JobDir
from paceline.messages.hosts import JoinHost, LogPiece


def host(index: int, name: str = "far") -> Host:
    return Host(JoinHost(token=name, name=name, address="", cores=1), index, 0.0)


@pytest.fixture
def far(tmp_path: Path) -> JobDir:
    job = JobDir(tmp_path / "far")
    job.logs.mkdir(parents=True)
    return job


@pytest.fixture
def near(tmp_path: Path) -> JobDir:
    job = JobDir(tmp_path / "near")
    job.logs.mkdir(parents=True)
    return job


def say(job: JobDir, name: str, text: str) -> None:
    with job.log(name).open("a") as log:
        log.write(text)


def test_a_log_goes_over_piece_by_piece_under_its_own_name(
    far: JobDir, near: JobDir
) -> None:
    told, kept = HostLogs(far.logs, "host-1"), KeptLogs(near)
    text = "".join(f"line {n}\n" for n in range(REPORT_BYTES // 4))
    say(far, "trainer-0", text)
    say(far, "forkserver", "no torch\n")
    (far.logs / "trainer-0.failure.json").write_text("{}")

    has_more, reports = True, 0
    while has_more:
        pieces, has_more = told.news()
        told.answered(kept.take(host(1), pieces))
        reports += 1

    assert reports > 2
    assert near.log("trainer-0").read_text() == f"-- on host-1 (far) --\n{text}"
    assert near.log("host-1").read_text() == "-- on host-1 (far) --\nno torch\n"
    assert len(list(near.logs.iterdir())) == 2
    assert told.news() == ((), False)


def test_a_log_says_where_it_goes_on_and_only_where_that_changes(near: JobDir) -> None:
    kept, home = KeptLogs(near), host(0, "home")

    def tell(index: int, text: bytes, offset: int = 0) -> None:
        piece = LogPiece(name="trainer-0", offset=offset, text=text)
        kept.take(host(index, f"m{index}\n"), [piece])

    kept.begin(home, "trainer-0")
    say(near, "trainer-0", "at home\n")
    kept.begin(home, "trainer-0")
    tell(1, b"away, and cut o")
    tell(2, b"further\n")
    tell(2, b"on\n", 8)
    kept.begin(home, "trainer-0")
    say(near, "trainer-0", "back\n")

    assert near.log("trainer-0").read_text().splitlines() == [
        "at home",
        "-- on host-1 (m1?) --",
        "away, and cut o",
        "-- on host-2 (m2?) --",
        "further",
        "on",
        "-- on host-0 (home) --",
        "back",
    ]


def test_what_a_full_disk_does_not_take_is_told_again(
    far: JobDir, near: JobDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, kept = HostLogs(far.logs, "host-1"), KeptLogs(near)
    say(far, "trainer-0", "one\ntwo\n")
    write, rooms = os.write, [4, 0, 25, None]

    def short(file: int, data: bytes) -> int:
        room = rooms.pop(0)
        if room == 0:
            raise OSError(28, "No space left on device")
        return write(file, data[:room])

    monkeypatch.setattr(os, "write", short)
    had = []
    while rooms:
        pieces, _ = told.news()
        assert pieces
        had.append(kept.take(host(1), pieces))
        told.answered(had[-1])

    assert [at["trainer-0"] for at in had] == [0, 0, 2, 8]
    lines = near.log("trainer-0").read_text().splitlines()
    assert lines == ["-- o", "-- on host-1 (far) --", "one", "two"]


def test_a_host_writes_no_file_but_its_logs(near: JobDir, tmp_path: Path) -> None:
    kept = KeptLogs(near)
    outside = tmp_path / "outside"
    near.log("trainer-1").symlink_to(outside)
    names = ("../trainer-0", "coordinator", "host-2", "trainer-1")
    pieces = [LogPiece(name=name, offset=0, text=b"!") for name in names]

    assert kept.take(host(1), pieces) == {"trainer-1": 0}
    assert list(near.logs.iterdir()) == [near.log("trainer-1")]
    assert not outside.exists()
