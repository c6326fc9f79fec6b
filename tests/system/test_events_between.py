"""Events between real processes: each once, in order, as they were sent."""

import json
from pathlib import Path

import pytest

from paceline.launch.processes.forkserver import ForkServer
from paceline.testing.chaos import ChaosPlan, wait_chaos
from tests.system.events_job import NUMBER

SCRIPT = Path(__file__).with_name("events_job.py")


@pytest.mark.system
@pytest.mark.timeout(0)
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_events_of_all_sizes_come_once_and_in_order(
    transport: str, tmp_path: Path, forks: ForkServer
) -> None:
    plan = ChaosPlan(
        SCRIPT,
        "async",
        (),
        timeout_s=120.0,
        limit_s=900.0,
        transport="tcp" if transport == "tcp" else "unix",
    )
    report = wait_chaos(plan, tmp_path, forks)
    assert report.is_exact(), report.verdict
    ends = [
        json.loads(path.read_text()) for path in sorted(tmp_path.rglob("trainer-*.json"))
    ]
    assert [(end["exact"], end["came"]) for end in ends] == [(True, 2 * NUMBER)] * 3
