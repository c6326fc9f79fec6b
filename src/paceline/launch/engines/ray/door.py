"""A job of a cluster by its name: where it lets in, and the secret that lets in.

A launcher leaves both with an actor of the cluster, which ends with it. Who may call the
cluster may run code on it as the job does; so the secret is no better kept from them.

Waits: `ray_door`, for Ray.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

from paceline.errors import UsageError
from paceline.launch.job import JobDoor, tcp_address
from paceline.transport.handshake import Secret

PREFIX = "job/"
TELL_S = 20.0


class LetIn(NamedTuple):
    """What lets in; travels between processes of Ray."""

    join: str
    secret: str
    is_plain: bool


@final
class DoorActor:
    """Tells where a job is."""

    def __init__(self, told: LetIn) -> None:
        """By what its launcher has said."""
        self._told = told

    def tell(self) -> LetIn:
        """Where it is."""
        return self._told


def ray_door(name: str, environment: Mapping[str, str]) -> JobDoor:
    """The job of a name on the cluster; this process is no part of it afterwards.

    Raises:
        UsageError: there is no cluster, or no such job.
    """
    from paceline.launch.engines.ray.cluster import (  # noqa: PLC0415  (cluster knows us)
        NAMESPACE,
        connect,
    )

    cluster = connect(is_uploaded=False, say=lambda _: None, environment=environment)
    try:
        told = LetIn(*cluster.told_by(f"{PREFIX}{name}", NAMESPACE, TELL_S))
    except LookupError as error:
        there = ", ".join(f"ray:{one}" for one in sorted(cluster.named(PREFIX)))
        raise UsageError(
            f"--join ray:{name}: no such job runs on this cluster; {there or 'none'} does"
        ) from error
    finally:
        cluster.close()
    return JobDoor(
        tcp_address("--join", told.join),
        Secret.parse(told.secret, f"ray:{name}"),
        told.is_plain,
    )


def door_options(name: str, namespace: str) -> dict[str, Any]:
    """Of the actor: it needs nothing, and may be anywhere."""
    return {"name": f"{PREFIX}{name}", "namespace": namespace, "num_cpus": 0}
