"""A job over hosts is seen and changed without its folder; its logs are together."""

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.hosts import HostedJob, within
from tests.system.saying_job import HURRY

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(0)]
SAYING = str(Path(__file__).with_name("saying_job.py"))
LONG = ("--records", "32000", "--ids", "200", "--epochs", "1", "--sleep-ms", "60")
HERE = [f"here is trainer-{n}" for n in range(3)]
THERE = [f"there was trainer-{n}" for n in range(3)]


class Elsewhere:
    """Who has the address of a job and its secret, and an empty folder."""

    def __init__(self, job: HostedJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        folder.mkdir()
        self._number = 0

    def ask(self, *words: str, expected: int = 0, **more: Any) -> str:
        """What a command says."""
        self._number += 1
        name = f"asked-{self._number}"
        process = self.job.run(name, words, on=0, cwd=self.folder, **more)
        assert process.wait(60.0) == expected, self.job.said(name)
        return self.job.said(name)


@pytest.fixture
def jobs() -> Iterator[list[HostedJob]]:
    begun: list[HostedJob] = []
    yield begun
    for job in begun:
        job.close()


def lines_of(text: str, wanted: list[str]) -> list[str]:
    """The wanted lines in the order that they have in a text, without prefixes."""
    found = [line.rpartition(" | ")[2] for line in text.splitlines()]
    return sorted(line for line in found if line in wanted)


def test_a_job_over_two_hosts_is_seen_without_its_folder_and_its_logs_are_together(
    tmp_path: Path, jobs: list[HostedJob]
) -> None:
    three = ("--trainers", "2:3", "--servers", "2", "--await-hosts", "2")
    hurry = tmp_path / "hurry"
    told = {HURRY: str(hurry)}
    job = HostedJob(tmp_path, *three, script=(SAYING, *LONG), environment=told)
    jobs.append(job)
    agent = job.host(environment=told)
    elsewhere = Elsewhere(job, tmp_path / "empty")
    door = ("--join", job.address)
    words = ["logs", *door, "trainer", "-f"]
    follower = job.run("follower", words, on=0, cwd=elsewhere.folder)
    try:
        within(60.0, "a few records count", lambda: job.records() > 200)

        seen = json.loads(elsewhere.ask("status", *door, "--json"))
        assert seen["state"] == "running"
        assert {p["role"] for p in seen["processes"]} >= {"server", "trainer"}
        assert lines_of(elsewhere.ask("logs", *door), HERE) == HERE
        assert "here is trainer-1\n" in elsewhere.ask("logs", *door, "trainer-1")
        assert "scaled to 2 trainers" in elsewhere.ask("scale", "2", *door)
        assert " at async:push=8" in elsewhere.ask("pace", "async:push=8", *door)

        other = {"PACELINE_SECRET_FILE": "", "PACELINE_SECRET": secrets.token_hex(32)}
        for command in (("status",), ("scale", "3"), ("logs",), ("pace", "async")):
            refused = elsewhere.ask(*command, *door, expected=2, environment=other)
            assert "must belong to one run and have its secret" in refused

        hurry.touch()
        assert job.end()["exact"]
        assert agent.wait(10.0) == 0
        assert follower.wait(20.0) == 0, job.said("follower")
    finally:
        follower.kill()
        follower.wait(10.0)
    followed, kept = job.said("follower"), elsewhere.ask("logs", str(job.job.path))
    for text in (followed, kept):
        assert lines_of(text, HERE + THERE) == HERE + THERE
    assert re.search(r"^trainer-\d +\| -- on host-1 \(agent-1\) --$", kept, re.MULTILINE)
    assert "no job is reached at" in elsewhere.ask("status", *door, expected=2)
    assert list(elsewhere.folder.iterdir()) == []
