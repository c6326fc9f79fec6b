"""A call of the user's as a stage of the job: its data, and how it is cut.

Waits: for the data set, to be looked at. The thread of the user's script calls.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, final

from paceline.data.opening import open_source
from paceline.data.source import Source
from paceline.data.split import check_stage, default_task_size
from paceline.errors import UsageError
from paceline.messages import StageKind, StageSpec
from paceline.trainer.gradients import PartNumbers
from paceline.trainer.tracker import Tracker


class Staged(Protocol):
    """Whose stages they are."""

    @property
    def size(self) -> int:
        """Processes of the trainer."""

    @property
    def numbers(self) -> dict[int, PartNumbers]:
        """What is shared, by part."""

    @property
    def tracker(self) -> Tracker:
        """The user's own objects."""


class Cutting(NamedTuple):
    """How a data set is read and cut; the words of `Session.batches`."""

    batch_size: int
    epochs: int = 1
    shuffle: bool = False
    seed: int = 0
    task_size: int | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    workers: int = 0


class Stage(NamedTuple):
    """The data of a stage, and what all trainers must agree on."""

    source: Source
    spec: StageSpec


@final
class Stages:
    """The stages of one run of the script, in the order of its calls."""

    def __init__(self, seat: Staged) -> None:
        """None has begun."""
        self.num_begun = 0
        self._seat = seat

    def begin(
        self,
        kind: StageKind,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        cutting: Cutting,
        shape: Callable[[StageSpec], StageSpec] = lambda spec: spec,
    ) -> Stage:
        """The job's next stage; ``shape`` may cut it in another way.

        Raises:
            UsageError: nothing is shared yet, an argument is out of range, or the data set
                cannot be read; no number was used.
        """
        call = "batches" if kind == "train" else kind
        if not self._seat.numbers:
            raise UsageError(
                f"{call}: share a model (session.share) or a table (session.table) first"
            )
        if cutting.workers < 0:
            raise UsageError(f"{call}: workers must be >= 0, got {cutting.workers}")
        source = open_source(dataset, cutting.collate_fn)
        task_size = cutting.task_size
        if task_size is None:
            # Every rank of a trainer works on the same task, each on batches of its own.
            together = cutting.batch_size * self._seat.size
            task_size = default_task_size(len(source), together)
        self._seat.tracker.look_for_buffers()
        spec = StageSpec(
            stage=self.num_begun,
            records=len(source),
            batch_size=cutting.batch_size,
            task_size=task_size,
            epochs=cutting.epochs,
            shuffle=cutting.shuffle,
            seed=cutting.seed,
            fingerprint=source.fingerprint(),
            tracked=self._seat.tracker.names,
            averaged=self._seat.tracker.averaged if kind == "train" else (),
            kind=kind,
        )
        spec = shape(spec)
        check_stage(spec)
        self._seat.tracker.begin()
        self.num_begun += 1
        return Stage(source, spec)
