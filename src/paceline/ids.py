"""Who is who: the small values by which things are named, in code and on the wire.

==============  ====================================================================
role id         ``"coordinator"``, ``"server-0"``, ``"trainer-3"``
incarnation     one membership of a role; granted at each join, from one growing number
generation      version of the membership; +1 at every join, leave, loss
timeline        +1 at every return to a cut
stage           the n-th `Session.batches` call of the job; a stage has epochs
task key        (stage, epoch, task): names a task of one epoch for good
window          the batches that a push was computed from: the identity of the push
slot            a fixed virtual shard of the parameter space
==============  ====================================================================

Batches of a task are numbered from 0; a mark of -1 means "no batch applied yet".
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

RoleKind = Literal[
    "coordinator", "server", "trainer", "launcher", "host", "operator", "observer"
]

COORDINATOR = "coordinator"
LAUNCHER = "launcher"
HOST = "host"  # one that has not joined yet
OPERATOR = "operator"  # whoever changes a running job from outside
NO_BATCH = -1


class TaskKey(NamedTuple):
    """A task of one epoch of one stage."""

    stage: int
    epoch: int
    task: int

    def __str__(self) -> str:
        """Read like ``s0/e1/t17`` in logs and errors."""
        return f"s{self.stage}/e{self.epoch}/t{self.task}"


class Span(NamedTuple):
    """Consecutive batches of one task: ``first..last``, both ends included."""

    task: int
    first: int
    last: int


class Window(NamedTuple):
    """The batches a push was computed from; a push's identity within its part.

    A window never spans two epochs: an epoch ends only when all its windows are
    acknowledged.
    """

    stage: int
    epoch: int
    spans: tuple[Span, ...]

    def task_keys(self) -> tuple[TaskKey, ...]:
        """The task keys of the spans, in order."""
        stage, epoch, spans = self
        if len(spans) == 1:  # by far the most
            return (TaskKey(stage, epoch, spans[0].task),)
        return tuple(TaskKey(stage, epoch, span.task) for span in spans)

    def num_batches(self) -> int:
        """Batches of all spans."""
        return sum([last - first + 1 for _, first, last in self.spans])

    def __str__(self) -> str:
        """Read like ``s0/e1[t17:4-7]`` in logs and errors."""
        spans = ",".join(f"t{s.task}:{s.first}-{s.last}" for s in self.spans)
        return f"s{self.stage}/e{self.epoch}[{spans}]"


OF_NO_BATCH = Window(0, 0, ())  # what is pushed outside of a loop


def cut_folder(cut: int, timeline: int) -> str:
    """The folder of a cut below the checkpoints' root; never used twice."""
    return f"cut-{cut:06d}-t{timeline}"


def server_id(index: int) -> str:
    """The role id of the index-th server."""
    return f"server-{index}"


def trainer_id(index: int) -> str:
    """The role id of the index-th trainer."""
    return f"trainer-{index}"


def host_id(index: int) -> str:
    """The role id of the index-th host; the first is the launcher's own machine."""
    return f"host-{index}"


def role_kind(role: str) -> RoleKind:
    """The kind of a role id; ``observer`` for anything that only looks."""
    kind = role.rsplit("-", 1)[0]
    if kind in {"coordinator", "server", "trainer", "launcher", "host", "operator"}:
        return kind  # type: ignore[return-value]  # narrowed by the set above
    return "observer"


def first_few(names: Sequence[str], joint: str = ", ") -> str:
    """Up to four names as they are told, and how many more there are."""
    told = joint.join(names[:4])
    return told if len(names) <= 4 else f"{told} and {len(names) - 4} more"
