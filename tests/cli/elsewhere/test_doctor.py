"""What ``paceline doctor`` prints of what was found, and what its exit code says."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.elsewhere import doctor as command
from paceline.errors import Interrupted
from paceline.launch.doctor import Examinee, ExamResult, ExamWish
from paceline.launch.doctor.findings import Finding
from paceline.launch.job import ON_LOOPBACK
from paceline.messages.hosts import JoinHost, MachineFacts, ProbeResult
from tests.cli.running import exit_code

FACTS = MachineFacts(16, 60 << 30, 80 << 30, 65536, {"Python": "3.12.1", "torch": "2.10.0"})
NOTE = Finding("the clock of a is 2.0 s ahead", is_wrong=False)
WRONG = Finding("b does not reach a: [nobody] listens")


def machine(index: int, *probes: ProbeResult) -> Examinee:
    """One that has tried these, from the first on."""
    name = "abc"[index]
    one = Examinee(f"host-{index}", JoinHost(name, name, f"tcp:10.0.0.{index}:5", 16), 0.0)
    one.facts, one.clock_s = FACTS, -0.01
    others = (n for n in range(3) if n != index)
    one.probes = {f"host-{n}": probe for n, probe in zip(others, probes, strict=False)}
    return one


class Exams:
    """Stands in for an examination, and keeps what was wished for."""

    def __init__(self) -> None:
        self.wish: ExamWish | None = None
        self.findings: list[Finding] = []
        self.examinees = [machine(0)]

    def __call__(self, wish: ExamWish, *_: object) -> ExamResult:
        self.wish = wish
        return ExamResult(self.examinees, self.findings)


@pytest.fixture
def exams(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Exams:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    stand_in = Exams()
    monkeypatch.setattr(command, "wait_examination", stand_in)
    return stand_in


def test_one_machine_is_examined_where_no_other_is_named(
    monkeypatch: pytest.MonkeyPatch, exams: Exams, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(monkeypatch, "doctor") == 0

    assert exams.wish is not None
    assert exams.wish.listening.begins_with(None) == 1
    assert exams.wish.listening.address == ON_LOOPBACK
    assert exams.wish.script is None
    printed = capsys.readouterr().out
    assert "all is well" in printed
    assert "10.0.0.0 " in printed
    assert "from" not in printed


def test_options_say_who_comes_and_what_is_tried(
    monkeypatch: pytest.MonkeyPatch, exams: Exams, tmp_path: Path
) -> None:
    where = ["--listen", "127.0.0.1:7070", "--await-hosts", 3, "--within", "5s"]

    assert (
        exit_code(monkeypatch, "doctor", *where, "--checkpoints", "cuts", "train.py") == 0
    )

    assert exams.wish is not None
    assert str(exams.wish.listening.address) == "tcp:127.0.0.1:7070"
    assert (exams.wish.listening.begins_with(None), exams.wish.within_s) == (3, 5.0)
    assert exams.wish.checkpoints == str(tmp_path / "cuts")
    assert exams.wish.script is not None
    assert exams.wish.script.path == "train.py"


@pytest.mark.parametrize(
    ("found", "code", "last"),
    [([NOTE], 0, "nothing is wrong"), ([WRONG, NOTE], 1, "note: the clock of a is 2.0 s")],
)
def test_what_is_wrong_makes_the_exit_code(
    found: list[Finding],
    code: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    exams: Exams,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exams.findings = found

    assert exit_code(monkeypatch, "doctor") == code

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(last)
    if code:
        assert "wrong: b does not reach a: [nobody] listens" in lines


def test_ways_are_shown_from_the_slowest_on(
    monkeypatch: pytest.MonkeyPatch, exams: Exams, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = ProbeResult(round_trip_s=0.001, bytes_per_s=5e8)
    slow = ProbeResult(round_trip_s=0.02, bytes_per_s=1e6)
    hole = ProbeResult(large_error="no reply", round_trip_s=0.001)
    exams.examinees = [
        machine(0, fast, slow),
        machine(1, ProbeResult(error="away"), hole),
        machine(2),
    ]

    exit_code(monkeypatch, "doctor")

    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = shown.index(["from", "to", "round", "trip", "rate"])
    assert shown[at + 1 : at + 5] == [
        ["b", "a", "-", "not", "reached"],
        ["b", "c", "1.00", "ms", "small", "frames", "only"],
        ["a", "c", "20.00", "ms", "1", "MB/s"],
        ["a", "b", "1.00", "ms", "500", "MB/s"],
    ]


def test_json_has_machines_ways_and_findings_in_one_line(
    monkeypatch: pytest.MonkeyPatch, exams: Exams, capsys: pytest.CaptureFixture[str]
) -> None:
    exams.findings = [WRONG]
    exams.examinees = [machine(0, ProbeResult(bytes_per_s=5e8)), machine(1)]

    assert exit_code(monkeypatch, "doctor", "--json") == 1

    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["cores"]) for one in report["machines"]] == [
        ("a", 16),
        ("b", 16),
    ]
    assert [(way["from"], way["to"], way["bytes_per_s"]) for way in report["ways"]] == [
        ("a", "b", 5e8)
    ]
    assert report["findings"] == [{"text": WRONG.text, "is_wrong": True}]


def test_whoever_stops_it_is_told_so(
    monkeypatch: pytest.MonkeyPatch, exams: Exams, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> ExamResult:
        raise Interrupted("interrupted")

    monkeypatch.setattr(command, "wait_examination", stopped)

    assert exit_code(monkeypatch, "doctor") == 75
    assert "paceline: interrupted" in capsys.readouterr().err
    assert exams.wish is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--await-hosts", 2], "--await-hosts belongs to --listen"),
        (["--plain"], "--plain belongs to --listen"),
        (["--ports", "1-9"], "--network, --advertise and --ports belong to --listen"),
        (["--within", "soon"], "--within: expected a duration"),
        (["no.py"], "there is no script 'no.py'"),
    ],
)
def test_what_cannot_be_is_refused(
    options: list[object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    exams: Exams,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(monkeypatch, "doctor", *options) == 2

    assert said in capsys.readouterr().err
    assert exams.wish is None
