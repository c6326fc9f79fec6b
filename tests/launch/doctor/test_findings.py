"""What is wrong is said with the names of the machines, and what to do."""

from collections.abc import Callable

import pytest

from paceline.errors import LARGE_DO_NOT_PASS
from paceline.launch.doctor.examination import Examinee
from paceline.launch.doctor.findings import Finding, findings
from paceline.messages.hosts import JoinHost, MachineFacts, ProbeResult

VERSIONS = {"Python": "3.12.1", "paceline": "0.1.0", "torch": "2.10"}
WELL = ProbeResult(round_trip_s=0.001, bytes_per_s=1e9)
LOTS = 1 << 40


def facts(**other: object) -> MachineFacts:
    """Of a machine that lacks nothing."""
    usual = {"cores": 2, "memory_bytes": LOTS, "disk_bytes": LOTS, "num_files": 65536}
    return MachineFacts(**{**usual, "versions": VERSIONS, **other})  # type: ignore[arg-type]


def three() -> list[Examinee]:
    """Machines a, b and c, all well."""
    made = []
    for index, name in enumerate("abc"):
        message = JoinHost(token=name, name=name, address=f"tcp:10.0.0.{index}:5", cores=2)
        one = Examinee(f"host-{index}", message, 0.0)
        one.facts, one.clock_s = facts(), 0.01 * index
        one.probes = {f"host-{n}": WELL for n in range(3) if n != index}
        one.files = {f"doctor-{other}.probe": "" for other in "abc"}
        made.append(one)
    return made


Change = Callable[[dict[str, Examinee]], object]


def told(change: Change) -> list[Finding]:
    """What is said of them once something is otherwise."""
    machines = three()
    change({one.name: one for one in machines})
    return findings(machines, 3, "file:///cuts")


def test_nothing_is_said_where_all_is_well() -> None:
    assert told(lambda _: None) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda at: at["a"].probes.update(
                {at["c"].id: ProbeResult(error="nobody listens")}
            ),
            "a does not reach c: nobody listens; open the ports",
        ),
        (
            lambda at: [
                one.probes.update({at["c"].id: ProbeResult(error="no way")})
                for one in (at["a"], at["b"])
            ],
            "a, b do not reach c: no way; ",
        ),
        (
            lambda at: at["b"].probes.update(
                {at["a"].id: ProbeResult(large_error="no reply")}
            ),
            f"from b to a {LARGE_DO_NOT_PASS} (no reply)",
        ),
        (
            lambda at: at["b"].files.update({at["b"].file: "read-only"}),
            "b cannot write to file:///cuts: read-only",
        ),
        (
            lambda at: [
                one.files.update({at["a"].file: "no file"}) for one in (at["b"], at["c"])
            ],
            "b, c do not find what a has written to file:///cuts: no file; name a place",
        ),
        (
            lambda at: setattr(
                at["c"], "facts", facts(versions={**VERSIONS, "paceline": "0.2.0"})
            ),
            "versions of paceline differ (0.1.0 on a, b; 0.2.0 on c): install the same",
        ),
        (
            lambda at: setattr(at["c"], "facts", facts(lacks="there is no script 't.py'")),
            "c: there is no script 't.py'",
        ),
        (
            lambda at: setattr(at["b"], "gone", "it has been silent for 60 s"),
            "b (tcp:10.0.0.1:5) was lost meanwhile: it has been silent for 60 s",
        ),
    ],
)
def test_what_would_end_a_job_is_wrong(change: Change, said: str) -> None:
    [finding] = told(change)

    assert finding.is_wrong
    assert finding.text.startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda at: setattr(
                at["b"], "facts", facts(versions={**VERSIONS, "torch": "2.9"})
            ),
            "versions of torch differ (2.10 on a, c; 2.9 on b): results may differ",
        ),
        (
            lambda at: setattr(at["b"], "facts", facts(num_files=256)),
            "b: a process may have 256 files open, and each connection is one: ulimit",
        ),
        (
            lambda at: setattr(at["b"], "facts", facts(memory_bytes=5e8)),
            "b: only 500 MB memory are free",
        ),
        (
            lambda at: setattr(at["b"], "facts", facts(disk_bytes=5e8)),
            "b: only 500 MB of the disk of its working folder are free",
        ),
        (
            lambda at: setattr(at["c"], "clock_s", -3600.0),
            "the clock of b is 3,600.0 s ahead of that of c: nothing is decided by it",
        ),
        (
            lambda at: at["b"].probes.update({at["c"].id: ProbeResult(bytes_per_s=2e6)}),
            "1 of 6 ways are less than a quarter as fast as the fastest (1,000 MB/s), the "
            "slowest from b to c (2.0 MB/s)",
        ),
    ],
)
def test_what_a_job_bears_is_told(change: Change, said: str) -> None:
    [finding] = told(change)

    assert not finding.is_wrong
    assert finding.text.startswith(said)


def test_what_is_wrong_is_said_first_and_who_has_not_come_is_missed() -> None:
    machines = three()[:2]
    machines[0].facts = facts(num_files=100)

    assert [finding.is_wrong for finding in findings(machines, 3)] == [True, False]
    assert findings(machines, 3)[0].text == "2 of 3 machines have come: a, b"
