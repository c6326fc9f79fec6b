"""`paceline status` says who is waited for."""

import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from paceline.cli.status import as_view, print_view
from paceline.messages.waits import Wait
from paceline.messages.watching import ProcessStatus
from tests.cli.running import STATUS


def test_a_status_says_first_who_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    wait = Wait("round", "round 7 waits for trainer-1 [t3]", ("trainer-1",), since_s=41.6)
    waiting = ProcessStatus("trainer", "trainer-0", 4, 7, "here", "", "waiting", 9, 5, wait)
    other = ProcessStatus("trainer", "trainer-1", 5, 8, "here", "", "training", 8, 4)
    job = replace(STATUS, processes=(waiting, other))
    view = as_view(job, "running")
    assert json.loads(json.dumps(view))["processes"][0]["wait"] == {
        "kind": "round",
        "reason": "round 7 waits for trainer-1 [t3]",
        "whom": ["trainer-1"],
        "more": 0,
        "since_s": 41.6,
    }
    print_view(view, Console(width=200))
    first, told, *table = capsys.readouterr().out.splitlines()
    assert first.startswith("running")
    assert told == "trainer-1 is waited for (round) by trainer-0, the longest since 42 s"
    assert any("round 7 waits for trainer-1 [t3]" in line for line in table)


def test_a_status_says_who_waits_for_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    full = "waiting for 3 s to start trainer-1: no machine has room for more"
    view = as_view(replace(STATUS, no_room=full), "running")
    assert view["no_room"] == full
    print_view(view, Console(width=200))
    assert capsys.readouterr().out.splitlines()[1] == full
