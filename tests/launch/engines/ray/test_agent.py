"""An actor has its agent as a child, which ends with it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from paceline.errors import UsageError
from paceline.launch.engines.ray import agent
from paceline.launch.engines.ray.agent import AgentActor, agent_environment

SECRET = "ab" * 32
NOBODY = ("host", "--join", "127.0.0.1:9", "--end-with-stdin")
ACTOR = """
import sys, time
from paceline.launch.engines.ray import agent
agent.node_id = lambda: "node"
actor = agent.AgentActor(sys.argv[1:], "ab" * 32, None, 1)
print(actor.look(0.0).status, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _on_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "node_id", lambda: "node")


@pytest.fixture
def actor() -> Iterator[subprocess.Popen[str]]:
    """A process with an actor in it."""
    command = [sys.executable, "-c", ACTOR, *NOBODY]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.system
def test_an_agent_says_how_it_has_ended() -> None:
    one = AgentActor(("host", "--join", "nowhere"), SECRET, None, 0)

    says = one.look(60.0)

    assert (says.node, says.status) == ("node", 2)
    assert "--join" in " ".join(says.words)


@pytest.mark.slow
@pytest.mark.system
def test_an_agent_that_is_told_to_leave_does() -> None:
    one = AgentActor(NOBODY, SECRET, None, 0)
    assert one.look(0.5).status is None

    assert one.look(60.0, is_to_leave=True).status in {75, -signal.SIGTERM}


@pytest.mark.slow
@pytest.mark.system
def test_an_agent_ends_when_its_actors_process_is_killed(
    actor: subprocess.Popen[str],
) -> None:
    assert actor.stdout is not None
    assert actor.stdout.readline() == "None\n"
    children = psutil.Process(actor.pid).children()
    assert len(children) == 1
    assert SECRET not in " ".join(children[0].cmdline())

    actor.kill()

    _, alive = psutil.wait_procs(children, 10.0)
    assert not alive


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*/gone on "):
        AgentActor(NOBODY, SECRET, str(tmp_path / "gone"), 1)


def test_rays_own_number_of_threads_is_not_that_of_trainers() -> None:
    environment = {"OMP_NUM_THREADS": "6", "PACELINE_SECRET": "x", "PATH": "p"}

    assert agent_environment(environment, 3) == {"PATH": "p", "OMP_NUM_THREADS": "3"}
    assert agent_environment(environment, 0) == {"PATH": "p"}
