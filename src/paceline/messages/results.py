"""What tasks of evaluations and predictions come to: to and from the coordinator."""

import msgspec

from paceline.messages.shared import Message, TrainerMessage

MAX_RESULT_BYTES = 8 << 20  # of one task, and of a value: a message has 16 MiB at most


class KeptBytes(msgspec.Struct, frozen=True, array_like=True):
    """Bytes in a file beside the cuts: what they hash to, and how many they are."""

    digest: str  # xxh3-128, 32 hex digits
    bytes: int


class FinishTask(TrainerMessage, frozen=True):
    """A task of an evaluation or prediction is worked off; ``result`` is what came of it.

    Counts once: a token whose lease is no longer the asker's is refused as ``stale``, also
    when the first of two tries has counted. Either way the asker goes on. ``kept`` takes
    the place of a large result once the coordinator has written it down.
    """

    token: int
    result: bytes
    kept: KeptBytes | None = None


class AskResults(TrainerMessage, frozen=True):
    """Ask for the results of a stage that is over, from task ``first`` on: `Results`."""

    stage: int
    first: int = 0


class Results(Message, frozen=True):
    """A stage's value, or results of its tasks while nobody has made a value of them.

    ``states`` is {task: its result}; ``following`` is the task to ask for next, None at the
    end. ``missing`` counts tasks that were given up. What is ``kept`` is read before the
    answer is sent.
    """

    value: bytes | None = None
    states: dict[int, bytes] = msgspec.field(default_factory=dict)
    following: int | None = None
    missing: int = 0
    kept: KeptBytes | None = None
    kept_states: dict[int, KeptBytes] = msgspec.field(default_factory=dict)


class KeepValue(TrainerMessage, frozen=True):
    """Keep what a stage comes to, for good: the first value; `Results` has what is kept.

    ``kept``: as in `FinishTask`.
    """

    stage: int
    value: bytes
    kept: KeptBytes | None = None
