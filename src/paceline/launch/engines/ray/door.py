"""A job of a cluster by its name: where it lets in, and the secret that lets in.

A launcher leaves both with an actor of the cluster, which ends with it. Who may call the
cluster may run code on it as the job does; so the secret is no better kept from them.

Pure: what the actor knows.
"""

from typing import Any, NamedTuple, final

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


def door_options(name: str, namespace: str) -> dict[str, Any]:
    """Of the actor: it needs nothing, and may be anywhere."""
    return {"name": f"{PREFIX}{name}", "namespace": namespace, "num_cpus": 0}
