"""A stage as the job has it: what a trainer brings, or who began it before.

Pure.
"""

from msgspec.structs import replace

from paceline.errors import UsageError
from paceline.messages import BeginStage, ShuffledAs, StageSpec
from paceline.trainer.asking import Act, Asking


def agree_stage(asking: Asking, spec: StageSpec) -> Act[StageSpec]:
    """Begin a stage, or come to it; how it is shuffled is for the first to say.

    Raises:
        UsageError: the job's stage of this number is another one.
    """
    reply = yield from asking.ask(BeginStage(**asking.who(), spec=spec))
    return replace(spec, loop=reply.loop) if isinstance(reply, ShuffledAs) else spec


def check_order(agreed: StageSpec | None, spec: StageSpec) -> None:
    """The ranks of a trainer read in the order of their own stage.

    Raises:
        UsageError: the job's is another one.
    """
    if agreed != spec:
        raise UsageError(
            "batches: this loop was begun in the order of another one, by a version that "
            "had one order for all loops: let it end with --ranks-per-trainer 1"
        )
