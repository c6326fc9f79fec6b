"""A call of the user's as a stage of the job, and what `Session.batches` returns of one.

Waits: for the data set, to be looked at; and as `loop` does, while it is iterated. The
thread of the user's script calls.
"""

import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar, final

import msgspec

from paceline.data.opening import open_source
from paceline.data.source import Source
from paceline.data.split import check_stage, default_task_size
from paceline.errors import UsageError
from paceline.machine import require_linux
from paceline.messages.shared import StageKind, StageSpec
from paceline.trainer.engine import Calls, Tracker
from paceline.trainer.tensors import PartTensors

T = TypeVar("T")

SPENT: Final = object()
"""Comes instead of a batch: there is none to take, and steps are awaited."""

_AGAIN = (
    "batches: what session.batches() returns is iterated once, and this one has been: call "
    "session.batches(...) again for another loop; to take batches here and there, keep one "
    "iterator: it = iter(session.batches(...))"
)


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
        self, size: int, parts: Mapping[int, PartTensors], tracker: Tracker
    ) -> None:
        """``size``: processes of the trainer; ``parts``: what it shares."""
        self.num_begun = 0
        self._num_loops = 0  # of these, over `Session.batches`
        self._before = (0, 0)  # both, before the last one
        self._size, self._parts, self._tracker = size, parts, tracker

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
        if not self._parts:
            raise UsageError(
                f"{call}: share a model (session.share) or a table (session.table) first"
            )
        if cutting.workers < 0:
            raise UsageError(f"{call}: workers must be >= 0, got {cutting.workers}")
        if cutting.workers:
            require_linux(f"{call}: workers={cutting.workers}", "; workers=0 reads here")
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
        if spec.is_training:
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


@final
class Batches(Iterator[Any]):
    """This trainer's share of the batches of one loop.

    It is the job's next stage from its first batch on; made and never iterated, it is
    none. To be iterated once, and by one thread, the one that steps. An iterator too:
    `next`, `enumerate` and `itertools.islice` work on it.
    """

    def __init__(
        self,
        calls: Calls,
        stages: Stages,
        planned: Stage,
        deliver: Callable[[Stage], Generator[Any, None, None]],
    ) -> None:
        self._num_batches = planned.spec.num_batches_in_all()
        begun = run_stage(stages, planned, deliver, calls)
        # Of this object nothing is known in there: a loop that is left drops it at once.
        batches = _until_spent(calls, calls.iterate(begun))
        self._batches = weakref.ref(batches)
        self._held: Generator[Any, None, None] | None = batches
        self._was_iterated = self._is_iterator = False

    def __len__(self) -> int:
        """Batches of the whole job, in all epochs: a trainer's share is not known ahead."""
        return self._num_batches

    def __iter__(self) -> Iterator[Any]:  # noqa: PYI034  (a held object keeps no loop open)
        """Its batches, once; dropped by the loop that takes them, they are left.

        Raises:
            UsageError: it was iterated before.
        """
        batches = self._held
        if batches is None or self._was_iterated:
            raise UsageError(_AGAIN)
        self._was_iterated = True
        if not self._is_iterator:
            self._held = None
        return batches

    def __next__(self) -> Any:  # noqa: ANN401  (the user's data)
        batches = self._batches()
        if batches is None:
            raise StopIteration
        self._is_iterator = True
        return next(batches)

    def close(self) -> None:
        """Leave the loop, as `break` does, if it is open; it does not begin any more."""
        batches, self._held = self._batches(), None
        if batches is not None:
            batches.close()


def _until_spent(
    calls: Calls, batches: Generator[Any, None, None]
) -> Generator[Any, None, None]:
    """What can be taken; a loop that awaits steps stays open behind it."""
    try:
        for batch in batches:
            if calls.is_late:
                calls.is_late = False
                raise KeyboardInterrupt
            if batch is SPENT:
                calls.spent = batches
                return
            yield batch
    finally:
        if calls.spent is not batches:
            batches.close()


def run_stage(
    stages: Stages,
    planned: Stage,
    deliver: Callable[[Stage], Generator[T, None, None]],
    calls: Calls | None = None,
) -> Generator[T, None, None]:
    """What a stage brings, from the first on as the job's next stage.

    One that the job refuses leaves its number to the next. With ``calls``, which thread
    takes what it brings is noted.
    """
    delivered = deliver(stages.number(planned))
    is_begun = False
    try:
        while True:
            if calls is not None:
                calls.taken_in = threading.get_ident()
            try:
                found = next(delivered)
            except StopIteration:
                return
            except UsageError:
                if not is_begun:
                    stages.take_back()
                raise
            is_begun = True
            yield found
    finally:
        if calls is not None:
            calls.taken_in = None
        delivered.close()
