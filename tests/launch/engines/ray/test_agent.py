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
import os, sys, time
from paceline.launch.engines.ray import agent
agent.node_id = lambda: "node"
actor = agent.AgentActor(sys.argv[1:], "ab" * 32, None, 1)
assert actor.look(0.0).status is None
print(os.getpid(), flush=True)
time.sleep(60)
"""
RAYLET = """
import subprocess, sys
subprocess.run([sys.executable, "-c", *sys.argv[1:]])
"""


@pytest.fixture(autouse=True)
def _on_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "node_id", lambda: "node")


@pytest.fixture
def raylet() -> Iterator[subprocess.Popen[str]]:
    """A process that has a child with an actor in it, and tells the number of that."""
    command = [sys.executable, "-c", RAYLET, ACTOR, *NOBODY]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process
    below = psutil.Process(process.pid).children(recursive=True)
    for one in (process, *below):
        one.kill()
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
@pytest.mark.parametrize("killed", ["actor", "raylet"])
def test_an_agent_ends_with_its_actors_process_and_that_with_its_raylet(
    raylet: subprocess.Popen[str], killed: str
) -> None:
    assert raylet.stdout is not None
    number = raylet.stdout.readline()
    actor = psutil.Process(int(number))
    [agent] = actor.children()
    assert SECRET not in " ".join(agent.cmdline())

    (actor if killed == "actor" else raylet).kill()

    _, alive = psutil.wait_procs([actor, agent], 10.0)
    assert not alive


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no folder .*/gone on "):
        AgentActor(NOBODY, SECRET, str(tmp_path / "gone"), 1)


def test_rays_own_number_of_threads_is_not_that_of_trainers() -> None:
    environment = {"OMP_NUM_THREADS": "6", "PACELINE_SECRET": "x", "PATH": "p"}

    assert agent_environment(environment, 3) == {"PATH": "p", "OMP_NUM_THREADS": "3"}
    assert agent_environment(environment, 0) == {"PATH": "p"}
