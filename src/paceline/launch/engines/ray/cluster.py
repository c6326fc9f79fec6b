"""All that Ray is asked for: where it is, places, actors, what they say, who drains.

What Ray itself raises while it is away is no news of any host: it is asked again.

Waits: `RayCluster.answers`, as long as it is told; for Ray, with its own bounds.
"""

import itertools
import os
import re
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from paceline.errors import UsageError
from paceline.launch.engines.ray.agent import AgentActor, AgentSays
from paceline.launch.engines.ray.door import DoorActor, LetIn, door_options
from paceline.launch.engines.ray.folder import files_to_upload, pack, told_upload
from paceline.launch.engines.ray.wish import RayHost, actor_options

NAMESPACE = "paceline"
REACH_S = 5.0
ADDRESS = "RAY_ADDRESS"
NICENESS = "RAY_worker_niceness"
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # of a process that `ray job submit` started
INSTALL = "pip install 'paceline[ray,tls]'"
# What Ray says of a machine on which an actor could not begin.
_WHERE = re.compile(r"\bip=([^,)\s]+)")
_NOT_THERE = ("No module named 'paceline", "failed to import", "No module named 'msgspec")


class NoAnswer(NamedTuple):
    """An actor that has no place, or does not answer now."""


class Dead(NamedTuple):
    """An actor that Ray does not start again; ``why`` is in words."""

    why: str


Answer = AgentSays | NoAnswer | Dead
Handle = Any  # what Ray gives, to be given back to it


@final
class RayCluster:
    """A cluster to which this process is connected."""

    def __init__(self, ray: Handle, niceness: str = "0") -> None:
        """Ask by Ray's own module, which is connected.

        ``niceness`` of the actors, and so of all that they start: Ray's own 15 leaves an
        agent so little beside other programs that it is taken for lost.
        """
        self._ray, self._niceness = ray, niceness
        self._groups: list[Handle] = []
        self._door: Handle = None  # ends with the last who holds it

    @property
    def node_ip(self) -> str:
        """The address of this machine, as Ray's others know it."""
        return str(self._ray.util.get_node_ip_address())

    def num_machines(self) -> int:
        """So many machines have CPUs."""
        nodes = self._ray.nodes()
        return sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in nodes)

    def reserve(self, hosts: Sequence[RayHost]) -> Handle:
        """Places for hosts, apart if that can be; they come when there is room."""
        bundles = [dict(host.resources) for host in hosts]
        group = self._ray.util.placement_group(bundles, strategy="SPREAD")
        self._groups.append(group)
        return group

    def why_no_place(self) -> str:
        """What Ray says of places that have not come; empty: all have."""
        table = self._ray.util.placement_group_table
        told = [table(group) for group in self._groups]
        return "; ".join(
            f"{one['stats']['scheduling_state']} for {list(one['bundles'].values())}"
            for one in told
            if one["state"] in {"PENDING", "RESCHEDULING"}
        )

    def start(
        self, name: str, host: RayHost, group: Handle, arguments: Sequence[object]
    ) -> Handle:
        """An actor that is asked for; it comes when there is room."""
        from ray.util.scheduling_strategies import (  # noqa: PLC0415  (an extra)
            PlacementGroupSchedulingStrategy,
        )

        strategy: object = "SPREAD"
        if host.bundle is not None:
            strategy = PlacementGroupSchedulingStrategy(group, host.bundle)
        options = actor_options(host.resources)
        actor = self._ray.remote(AgentActor).options(
            name=name,
            namespace=NAMESPACE,
            max_restarts=-1,
            max_task_retries=0,
            enable_task_events=False,
            scheduling_strategy=strategy,
            runtime_env={"env_vars": {NICENESS: self._niceness}},
            **options,
        )
        return actor.remote(*arguments)

    def open_door(self, name: str, told: LetIn) -> str:
        """Leave with the cluster where a job lets in; by which name it is asked for.

        Another job may have that name already: then it is another, which is told.
        """
        for number in itertools.count(1):
            shown = name if number == 1 else f"{name}-{number}"
            options = door_options(shown, NAMESPACE)
            try:
                self._door = self._ray.remote(DoorActor).options(**options).remote(told)
            except ValueError:  # Ray's word for a name that is taken
                continue
            return shown
        raise AssertionError("numbers do not end")

    def named(self, prefix: str) -> list[str]:
        """What follows the prefix in names of actors."""
        names = self._ray.util.list_named_actors()
        return [one.removeprefix(prefix) for one in names if one.startswith(prefix)]

    def told_by(self, actor: str, namespace: str, within_s: float) -> LetIn:
        """What the actor of a name tells.

        Raises:
            LookupError: there is none, or it does not answer in time.
        """
        try:
            found = self._ray.get_actor(actor, namespace=namespace)
            told: LetIn = self._ray.get(found.tell.remote(), timeout=within_s)
        except (ValueError, self._ray.exceptions.RayError) as error:
            raise LookupError(actor) from error
        return told

    def look(self, actor: Handle, within_s: float, *, is_to_leave: bool) -> Handle:
        """Ask an actor how its agent is; the answer comes by `answers`."""
        return actor.look.remote(within_s, is_to_leave=is_to_leave)

    def answers(
        self, asked: Sequence[Handle], timeout_s: float
    ) -> list[tuple[Handle, Answer]]:
        """What has come, within some time, of what was asked."""
        if not asked:
            return []
        come, _ = self._ray.wait(list(asked), num_returns=1, timeout=timeout_s)
        if come:
            come, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0)
        return [(one, self._answer(one)) for one in come]

    def draining(self) -> dict[str, float]:
        """{id of a machine that is to go: when, in seconds of the wall clock; 0: unsaid}.

        Ray has no public word for it: a version that does not say it says nothing.
        """
        try:
            from ray._private.state import state  # noqa: PLC0415

            found = state.get_draining_nodes()
        except (ImportError, AttributeError):
            return {}
        return {node: at / 1000 for node, at in found.items()}

    def give_back(self, group: Handle) -> None:
        """Places of which none is used any more."""
        self._groups.remove(group)
        self._ray.util.remove_placement_group(group)

    def restart(self, actor: Handle) -> None:
        """End an actor's process, so that Ray starts it where there is room."""
        self._ray.kill(actor, no_restart=False)

    def end(self, actor: Handle) -> None:
        """End an actor for good."""
        self._ray.kill(actor)

    def close(self) -> None:
        """Give all places back, and leave: actors that are left end."""
        for group in self._groups:
            self._ray.util.remove_placement_group(group)
        self._ray.shutdown()

    def _answer(self, asked: Handle) -> Answer:
        errors = self._ray.exceptions
        try:
            found = self._ray.get(asked)
        except (
            errors.ActorDiedError,
            errors.ActorUnschedulableError,
            errors.RuntimeEnvSetupError,
        ) as error:
            return Dead(_why_dead(str(error)))
        except errors.RayError:
            return NoAnswer()
        assert isinstance(found, AgentSays)
        return found


def connect(
    *,
    is_uploaded: bool,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
) -> RayCluster:
    """Become a driver of the cluster that ``RAY_ADDRESS`` names, or of this machine's.

    ``is_uploaded``: its machines are given the working folder, if they have it not from
    `ray job submit`; ``say`` hears how much that is, before.

    Raises:
        UsageError: Ray is not installed, there is no cluster, or the folder has too much.
    """
    try:
        import ray  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise UsageError(
            f"--engine ray: Ray is not installed here: {INSTALL}, on all machines of the "
            "cluster"
        ) from error
    address = environment.get(ADDRESS) or "auto"
    if address != "auto":
        _require_reached(address)
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        runtime: dict[str, object] = {}
        if is_uploaded and "working_dir" not in environment.get(JOB_CONFIG, ""):
            here = Path.cwd()
            files = files_to_upload(here)
            say(f"paceline: {told_upload(here, files)}")
            archive = Path(folder, "folder.zip")
            pack(here, files, archive)
            runtime["working_dir"] = str(archive)
        try:
            ray.init(
                address,
                namespace=NAMESPACE,
                runtime_env=runtime or None,
                log_to_driver=False,
                configure_logging=False,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(
                f"--engine ray: no Ray cluster is reached at {address} ({error}): start "
                f"one with ray start --head, or name its head with {ADDRESS}"
            ) from error
    return RayCluster(ray, environment.get(NICENESS, "0"))


def _require_reached(address: str) -> None:
    """Let a head be at an address: Ray itself would look for it for minutes.

    Raises:
        UsageError: it is none of a head, or nobody answers there.
    """
    if "://" in address:
        raise UsageError(
            f"--engine ray: {ADDRESS} is {address}, which leads to the cluster from "
            "outside: start it on a machine of the cluster, or as the entrypoint of "
            "ray job submit"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(
            f"--engine ray: {ADDRESS}: expected the address of a head, such as "
            f"10.0.0.1:6379, got {address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"--engine ray: no head of a cluster answers at {address} ({ADDRESS}): {error}"
        ) from error


def _why_dead(text: str) -> str:
    """The last line of what Ray says, and what to do where that is known."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    why = lines[-1] if lines else "it was ended"
    if any(words in text for words in _NOT_THERE):
        at = _WHERE.search(text)
        where = f"on {at[1]}" if at else "there"
        return f"paceline is not installed {where}: {INSTALL} ({why})"
    return why
