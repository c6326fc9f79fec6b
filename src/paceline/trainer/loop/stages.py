"""A call of the user's as a stage of the job: its data, and how it is cut.

Waits: for the data set, to be looked at. The thread of the user's script calls.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, final

import msgspec

from paceline.data.opening import open_source
from paceline.data.source import Source
from paceline.data.split import check_stage, default_task_size
from paceline.errors import UsageError
from paceline.messages.shared import StageKind, StageSpec
from paceline.trainer.engine import Tracker
from paceline.trainer.tensors import PartTensors

T = TypeVar("T")


class Cutting(NamedTuple):
    """How a data set is read and cut; the words of `Session.batches`."""

    batch_size: int
    epochs: int = 1
    shuffle: bool = False
    seed: int = 0
    task_size: int | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    workers: int = 0


def _nobody_asks() -> None:
    """Whether it was begun matters to nobody."""


class Stage(NamedTuple):
    """The data of a stage, and what all trainers must agree on.

    ``begun`` is called once the job has it as the stage that it is.
    ``lookahead``: batches that the script takes ahead of their steps.
    """

    source: Source
    spec: StageSpec
    begun: Callable[[], None] = _nobody_asks
    lookahead: int = 0


@final
class Stages:
    """The stages of one run of the script, in the order of its calls."""

    def __init__(
        self, size: int, numbers: Mapping[int, PartTensors], tracker: Tracker
    ) -> None:
        """``size``: processes of the trainer; ``numbers``: what it shares, by part."""
        self.num_begun = 0
        self._num_loops = 0  # of these, over `Session.batches`
        self._before = (0, 0)  # both, before the last one
        self._size, self._numbers, self._tracker = size, numbers, tracker

    def plan(
        self,
        kind: StageKind,
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        cutting: Cutting,
        shape: Callable[[StageSpec], StageSpec] = lambda spec: spec,
    ) -> Stage:
        """A stage that has not begun, and may never: it has no number of its own yet.

        Raises:
            UsageError: nothing is shared yet, an argument is out of range, or the data set
                cannot be read.
        """
        call = "batches" if kind == "train" else kind
        if not self._numbers:
            raise UsageError(
                f"{call}: share a model (session.share) or a table (session.table) first"
            )
        if cutting.workers < 0:
            raise UsageError(f"{call}: workers must be >= 0, got {cutting.workers}")
        source = open_source(dataset, cutting.collate_fn)
        task_size = cutting.task_size
        if task_size is None:
            # Every rank of a trainer works on the same task, each on batches of its own.
            together = cutting.batch_size * self._size
            task_size = default_task_size(len(source), together)
        self._tracker.look_for_buffers()
        spec = StageSpec(
            stage=self.num_begun,
            records=len(source),
            batch_size=cutting.batch_size,
            task_size=task_size,
            epochs=cutting.epochs,
            shuffle=cutting.shuffle,
            seed=cutting.seed,
            fingerprint=source.fingerprint(),
            kind=kind,
        )
        spec = shape(spec)
        check_stage(spec)
        return Stage(source, spec)

    def call(self, planned: Stage, act: Callable[[Stage], T]) -> T:
        """What an act on a stage, the job's next one, comes to."""
        is_begun = threading.Event()
        try:
            return act(self.number(planned)._replace(begun=is_begun.set))
        except UsageError:
            if not is_begun.is_set():
                self.take_back()
            raise

    def number(self, planned: Stage) -> Stage:
        """It is the job's next stage, and tracks what is tracked by now."""
        tracker, spec = self._tracker, planned.spec
        tracker.begin()
        self._before = self.num_begun, self._num_loops
        is_loop = spec.is_training and spec.rotation is None
        numbered = msgspec.structs.replace(
            spec,
            stage=self.num_begun,
            tracked=tracker.names,
            averaged=tracker.averaged if spec.is_training else (),
            loop=self._num_loops if is_loop and spec.shuffle else 0,
        )
        self.num_begun += 1
        self._num_loops += is_loop
        return planned._replace(spec=numbered)

    def take_back(self) -> None:
        """The job has refused the stage: its number is the next one's."""
        self.num_begun, self._num_loops = self._before
