"""What `Session.batches` returns: the batches of one loop, before, during and after it.

::

    made          arguments are looked at; the job knows nothing of it
    iterated      it is the job's next stage: on every trainer the n-th that begins
    over          as a generator, it is not begun again

Waits: as `loop` does, while it is iterated. The thread of the user's loop calls.
"""

import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, TypeVar, final

from paceline.errors import UsageError
from paceline.trainer.engine import Calls
from paceline.trainer.loop.stages import Stage, Stages

T = TypeVar("T")

SPENT: Final = object()
"""Comes instead of a batch: there is none to take, and steps are awaited."""

_AGAIN = (
    "batches: what session.batches() returns is iterated once, and this one has been: call "
    "session.batches(...) again for another loop; to take batches here and there, keep one "
    "iterator: it = iter(session.batches(...))"
)


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
