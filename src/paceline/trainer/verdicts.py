"""What the protocol tells its driver: what to do next, and what became of a step.

Pure.
"""

from typing import Literal, NamedTuple

from paceline.ids import TaskKey


class Batch(NamedTuple):
    """Work on this batch of a task next."""

    key: TaskKey
    batch: int


class Task(NamedTuple):
    """Evaluate this task next; no other attempt at one has its timeline and token."""

    key: TaskKey
    timeline: int
    token: int


class Flush(NamedTuple):
    """Close the open window of every part (`TrainerProtocol.step`), then ask again."""


class Over(NamedTuple):
    """The loop is over for all; ``stopped`` carries the reason of a stop."""

    stopped: str | None


class Leaving(NamedTuple):
    """The trainer was told to leave: end the loop; ``reason`` says by whom."""

    reason: str


class RefusedStep(NamedTuple):
    """Why a push is to have no effect; ``norm`` is its own if that is why."""

    reason: str
    norm: float | None = None


class Stepped(NamedTuple):
    """What became of a step.

    ``pushed``: it has its effect; ``kept``: it waits in the open window; ``dropped``:
    the timeline or incarnation is gone, nothing was applied; ``reason`` says why.
    """

    verdict: Literal["pushed", "kept", "dropped"]
    reason: str = ""


class AfterStep(NamedTuple):
    """What a step of a part means for its gradients."""

    part: int
    is_kept: bool
    zero_grad: bool
    is_refused: bool
