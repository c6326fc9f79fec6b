"""The containers of a manifest, on machines of their own, are a job that counts exactly.

Each has the manifest's own command, environment, volumes and names, and is the first
process of its container.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from paceline.errors import PREEMPTED_EXIT_CODE
from paceline.testing.machines import Machine, Machines
from tests.system.hosts import COUNTING, within
from tests.system.pods import Cluster, Pod, paceline

pytestmark = [
    pytest.mark.around,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("needs_machines"),
]
LIMIT_S = 240.0
OUT = "/run/paceline/checkpoints/verdict.json"
COUNT = ("--ids", "200", "--epochs", "1", "--out", OUT)
SHORT = ("--records", "3200", "--sleep-ms", "5")
LONG = ("--records", "9600", "--sleep-ms", "40")
NAME = "count"  # of the Service that leads to the coordinator
OPTIONS = (
    *("--image", "registry.example/job:1", "--name", NAME, "--timeout", "3s"),
    *("--checkpoints", "claim:cuts/count", "--trainers", "1:2", "--servers", "2"),
    *("--pace", "async", "--checkpoint-every", "1s"),
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(
    stack: ExitStack, folder: Path, kind: str, *arguments: str
) -> tuple[Cluster, list[Machine], dict[str, list[Pod]]]:
    """A cluster whose manifest was applied: {role: its pods}; one machine has none yet."""
    image = folder / "image"
    image.mkdir()
    shutil.copy(COUNTING, image / "train.py")
    text = paceline(["manifests", kind, *OPTIONS, "train.py", *COUNT, *arguments])
    cluster = Cluster(folder, text, image)
    roles = ["trainer", "coordinator", "server"]  # whoever comes first waits
    wanted = [role for role in roles for _ in range(cluster.count(role))]
    machines = [*stack.enter_context(Machines(len(wanted) + 1))]
    stack.callback(cluster.close)
    cluster.lead(NAME, machines[wanted.index("coordinator")])
    pods: dict[str, list[Pod]] = {role: [] for role in roles}
    for role, machine in zip(wanted, machines, strict=False):
        pods[role].append(cluster.start(role, machine))
    return cluster, machines, pods


def verdict(cluster: Cluster) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        (cluster.folder / "cuts/verdict.json").read_text()
    )
    return found


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["k8s", "jobset"])
def test_a_manifests_containers_count_exactly_and_all_end_with_0(
    tmp_path: Path, stack: ExitStack, kind: str
) -> None:
    cluster, machines, pods = begun(stack, tmp_path, kind, *SHORT)

    [coordinator] = pods["coordinator"]
    assert coordinator.wait(LIMIT_S) == 0, coordinator.said()
    others = [*pods["server"], *pods["trainer"]]
    assert [pod.wait(20.0) for pod in others] == [0] * 4
    assert verdict(cluster)["exact"]
    assert all(not machine.processes() for machine in machines)


def counted(cluster: Cluster) -> bool:
    """Whether records are in a checkpoint."""
    return any(cluster.folder.glob("cuts/count/cut-*/manifest.json"))


@pytest.mark.parametrize(
    "way", ["killed", pytest.param("told to stop", marks=pytest.mark.soak)]
)
def test_the_coordinator_goes_on_elsewhere_with_its_volume_and_the_others_stay(
    tmp_path: Path, stack: ExitStack, way: str
) -> None:
    cluster, machines, pods = begun(stack, tmp_path, "k8s", *LONG)
    [first] = pods["coordinator"]
    within(LIMIT_S, "a checkpoint", lambda: counted(cluster))

    if way == "killed":
        first.kill()
    else:
        first.stop()
        assert first.wait(60.0) == PREEMPTED_EXIT_CODE, first.said()
    cluster.lead(NAME, machines[-1])
    second = cluster.start("coordinator", machines[-1])

    assert second.wait(LIMIT_S) == 0, second.said()
    assert "resumed" in second.said()
    others = [*pods["server"], *pods["trainer"]]
    assert [pod.wait(20.0) for pod in others] == [0] * 4, "none was started again"
    assert all("this machine joins again" in pod.said() for pod in others)
    assert verdict(cluster)["exact"]


@pytest.mark.soak
def test_pods_that_are_killed_or_drained_are_replaced_and_the_count_is_exact(
    tmp_path: Path, stack: ExitStack
) -> None:
    cluster, machines, pods = begun(stack, tmp_path, "jobset", *LONG)
    [coordinator], [drained, trainer] = pods["coordinator"], pods["trainer"]
    killed, server = pods["server"]
    within(LIMIT_S, "a checkpoint", lambda: counted(cluster))

    drained.stop()
    assert drained.wait(60.0) == PREEMPTED_EXIT_CODE
    killed.kill()
    others = [cluster.start(role, machines[-1]) for role in ("server", "trainer")]

    assert coordinator.wait(LIMIT_S) == 0, coordinator.said()
    assert [pod.wait(20.0) for pod in (*others, trainer, server)] == [0] * 4
    assert verdict(cluster)["exact"]
