"""Signs of life between a trainer's requests, and what they tell."""

from paceline.messages.shared import Message, TrainerClock, TrainerMessage
from paceline.messages.waits import Wait


class Beat(TrainerMessage, frozen=True):
    """A sign of life between other requests, with what `paceline status` shows.

    ``state`` is what the trainer is at when it does not wait; empty: as it said before.
    ``evaluated`` counts batches that needed no step: progress that no tick tells.
    ``bounded_clock`` is what a `Tick` says, where a pace bounds it.
    """

    clock: int
    state: str = ""
    wait: Wait | None = None
    evaluated: int = 0
    bounded_clock: TrainerClock | None = None


class Beaten(Message, frozen=True):
    """How things stand; on a timeline not its own a trainer rejoins; see `Ticked`."""

    timeline: int
    stopped: str | None = None
    pauses: bool = False
