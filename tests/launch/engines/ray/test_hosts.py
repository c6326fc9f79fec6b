"""The actors of a job, on a cluster that the test plays."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.config import JobConfig
from paceline.errors import PREEMPTED_EXIT_CODE, JobFailed
from paceline.launch.engines import BroughtJob
from paceline.launch.engines.ray.agent import AgentSays
from paceline.launch.engines.ray.cluster import Answer, Dead
from paceline.launch.engines.ray.door import LetIn
from paceline.launch.engines.ray.hosts import RayHosts
from paceline.launch.engines.ray.wish import RayHost, RayWish, asked_hosts
from paceline.launch.job import JobDir
from paceline.timing import SystemClock
from paceline.transport.handshake import Secret
from tests.system.hosts import within

SECRET = Secret(b"\7" * 32)


class Played:
    """A cluster: what each actor answers is set by the test."""

    def __init__(self) -> None:
        self.says: dict[str, Answer] = {}  # {host: ...}; a host that is not there: pends
        self.started: list[str] = []
        self.restarted: list[str] = []
        self.given_back: list[object] = []
        self.left: set[str] = set()  # hosts that were told to leave
        self.arguments: dict[str, Sequence[object]] = {}
        self.drained: dict[str, float] = {}
        self.why = ""
        self.ended: list[str] = []
        self.is_closed = False
        self.told: LetIn | None = None
        self._numbers = itertools.count()

    def reserve(self, hosts: Sequence[RayHost]) -> object:
        return f"group of {', '.join(host.name for host in hosts)}"

    def why_no_place(self) -> str:
        return self.why

    def start(
        self, name: str, host: RayHost, group: object, arguments: Sequence[object]
    ) -> str:
        assert (group is None) == (not host.has_servers)
        self.started.append(host.name)
        self.arguments[name] = arguments
        return host.name

    def open_door(self, name: str, told: LetIn) -> str:
        self.told = told
        return name

    def look(self, actor: str, within_s: float, *, is_to_leave: bool) -> tuple[str, int]:
        assert within_s > 0
        self.left |= {actor} if is_to_leave else set()
        return actor, next(self._numbers)

    def answers(
        self, asked: Sequence[tuple[str, int]], timeout_s: float
    ) -> list[tuple[Any, Answer]]:
        assert timeout_s >= 0
        return [(one, self.says[one[0]]) for one in asked if one[0] in self.says]

    def draining(self) -> dict[str, float]:
        return self.drained

    def restart(self, actor: str) -> None:
        self.restarted.append(actor)
        del self.says[actor]

    def end(self, actor: str) -> None:
        self.ended.append(actor)
        self.says.pop(actor, None)

    def give_back(self, group: object) -> None:
        self.given_back.append(group)

    def close(self) -> None:
        self.is_closed = True


class Brought:
    """Hosts of a job of 1 to 2 trainers on 2 machines; it begins with one of each kind."""

    def __init__(self, folder: Path, servers: int) -> None:
        self.cluster, self.said = Played(), list[str]()
        config = JobConfig(run="r", trainers=1, most_trainers=2, servers=servers)
        asked = asked_hosts(RayWish(), config, 2)
        job = (JobDir(folder), config, SECRET, ("--plain",), 3, self.said.append)
        self.hosts = RayHosts(
            BroughtJob(*job, SystemClock()),
            asked,
            self.cluster,  # type: ignore[arg-type]
            is_uploaded=True,
        )
        self.hosts.start("10.0.0.1:7070")

    def runs(self, *names: str, node: str = "node") -> None:
        for name in names:
            self.cluster.says[name] = AgentSays(node, None)

    def ends(self, name: str, status: int, *words: str) -> None:
        self.cluster.says[name] = AgentSays("node", status, words)

    def told(self, text: str) -> None:
        within(5.0, text, lambda: any(text in line for line in self.said))


@pytest.fixture
def begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Brought]]:
    of = "paceline.launch.engines.ray.hosts"
    for name in ("LOOK_EVERY_S", "DRAINS_EVERY_S", "PLACES_EVERY_S", "LEAVE_S"):
        monkeypatch.setattr(f"{of}.{name}", 0.01 if name != "LEAVE_S" else 0.5)
    made: list[Brought] = []

    def make(servers: int = 1) -> Brought:
        made.append(Brought(tmp_path, servers))
        return made[-1]

    yield make
    for one in made:
        one.hosts.close()
        assert one.cluster.is_closed


def test_actors_are_named_for_the_job_and_get_its_secret_as_an_argument(
    begin: Callable[[], Brought],
) -> None:
    job = begin()

    assert job.cluster.started == ["servers-0", "trainers-0", "trainers-1"]
    words, secret, folder, threads = job.cluster.arguments["paceline/r/trainers-1"]
    assert secret == SECRET.text()
    assert (folder, threads) == (None, 1)
    assert isinstance(words, list)
    assert words[:5] == ["host", "--join", "10.0.0.1:7070", "--name", "trainers-1"]
    job.told("Ray is asked for 1 host for servers and 2 for trainers")
    assert not any("since no more machines" in line for line in job.said)
    assert words[5:10] == ["--plain", "--servers", "0", "--trainers", "1"]
    assert "--end-with-stdin" in words


def test_where_the_job_lets_in_is_left_with_the_cluster(
    begin: Callable[[], Brought],
) -> None:
    job = begin()

    assert job.cluster.told == LetIn("10.0.0.1:7070", SECRET.text(), True)
    job.told("from any machine of the cluster: paceline status --join ray:")


def test_an_agent_that_ends_is_started_again(begin: Callable[[], Brought]) -> None:
    job = begin()
    job.runs("servers-0", "trainers-0")

    job.ends("trainers-0", 1, "paceline: it was lost to the job")

    job.told("of trainers-0 has ended with exit code 1: paceline: it was lost to the job")
    within(5.0, "it is", lambda: job.cluster.restarted == ["trainers-0"])
    job.hosts.check()


def test_servers_that_are_more_than_machines_are_told_to_share_them(
    begin: Callable[..., Brought],
) -> None:
    begin(2).told("Ray is asked for 2 hosts for servers and 2 for trainers")
    job = begin(3)
    job.told("3 servers go to 2 hosts, since no more machines of the cluster have CPUs now")


def test_one_more_than_the_job_can_do_without_fails_it_in_its_own_words(
    begin: Callable[[], Brought],
) -> None:
    job = begin()
    job.cluster.says["trainers-1"] = Dead("paceline is not installed there")
    job.told("trainers-1 is gone: paceline is not installed there")
    job.hosts.check()

    job.cluster.says["trainers-0"] = Dead("nor there")

    job.told("trainers-0 is gone")
    with pytest.raises(JobFailed, match=r"(?s)cannot begin with as many hosts.*nor there"):
        job.hosts.check()
    assert len(job.hosts.ended) == 2


def test_who_is_drained_leaves_and_servers_get_another_place_first(
    begin: Callable[[], Brought],
) -> None:
    job = begin()
    job.runs("servers-0", "trainers-0", node="old")
    job.runs("trainers-1")

    job.cluster.drained = {"old": 0.0}

    job.told("servers-0 is told to leave: Ray drains its machine")
    job.told("trainers-0 is told to leave")
    within(5.0, "they are", lambda: job.cluster.left == {"servers-0", "trainers-0"})
    assert job.cluster.started[3:] == ["servers-1"]
    job.ends("servers-0", PREEMPTED_EXIT_CODE)
    job.ends("trainers-0", PREEMPTED_EXIT_CODE)
    within(5.0, "trainers come back", lambda: job.cluster.restarted == ["trainers-0"])
    within(5.0, "servers do not", lambda: job.cluster.ended == ["servers-0"])
    assert job.cluster.given_back == ["group of servers-0"]


def test_trainers_give_way_to_servers_without_a_place_and_are_asked_for_again(
    begin: Callable[[], Brought], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.launch.engines.ray.standing.YIELD_AFTER_S", 0.0)
    job = begin()
    job.cluster.why = "NO_RESOURCES"
    job.runs("trainers-0", "trainers-1")

    job.told("trainers-1 gives its place to servers, which have none")
    job.ends("trainers-1", PREEMPTED_EXIT_CODE)
    within(5.0, "it is gone", lambda: "trainers-1" in job.cluster.ended)
    job.cluster.why = ""
    job.runs("servers-0")

    within(5.0, "again", lambda: job.cluster.started.count("trainers-1") == 2)


def test_a_cluster_that_does_not_answer_is_asked_again(
    begin: Callable[[], Brought], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paceline.launch.engines.ray.hosts.ANSWER_WITHIN_S", 0.01)
    job = begin()
    monkeypatch.setattr(job.cluster, "draining", lambda: 1 // 0)
    job.told("Ray does not answer, and is asked again: ZeroDivisionError")

    monkeypatch.setattr(job.cluster, "draining", dict)
    job.runs("trainers-0")
    job.ends("trainers-0", 1, "gone")

    job.told("the agent of trainers-0 has ended")
    assert sum("does not answer, and" in line for line in job.said) == 1
