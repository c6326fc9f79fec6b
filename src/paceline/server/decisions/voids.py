"""Windows without effect: pushes that were refused, and whose batches count all the same.

Marks pass over such a window as over any other. When its trainer dies halfway, some servers
have passed it and others have not, and whoever trains its batches again must not apply them
where they were not passed yet: the verdict on a push is one for all of it. So a server
remembers which batches had no effect as long as it remembers their marks, and tells both
together.

Only parts whose pushes are applied at once have voids: a round is whole on all servers or
on none.

Pure.
"""

from collections.abc import Iterable
from typing import final

from paceline.ids import TaskKey, Window
from paceline.messages.shared import VoidSpan


def is_open(
    key: TaskKey, stage: int, epoch: int, done: range, kept: frozenset[int]
) -> bool:
    """Whether a cut that shows an epoch so far still needs what is known of a task."""
    at, now = (key.stage, key.epoch), (stage, epoch)
    return at > now or (at == now and (key.task not in done or key.task in kept))


KeptVoid = tuple[TaskKey, VoidSpan]  # as a cut keeps it


@final
class Voids:
    """The voids of all parts on one server."""

    def __init__(self, kept: Iterable[KeptVoid] = ()) -> None:
        """Those of a cut."""
        self._spans: dict[TaskKey, list[VoidSpan]] = {}  # {task: spans, as they came}
        for key, span in kept:
            self._spans.setdefault(key, []).append(span)

    def add(self, part: int, window: Window) -> None:
        """A window has no effect on a part."""
        for key, span in zip(window.task_keys(), window.spans, strict=True):
            found = self._spans.setdefault(key, [])
            for index, known in enumerate(found):
                if known.part == part and known.last + 1 == span.first:
                    found[index] = known._replace(last=span.last)
                    break
            else:
                found.append(VoidSpan(part, span.first, span.last))

    def has(self, part: int, window: Window) -> bool:
        """Whether all batches of a window had no effect on a part."""
        return all(
            any(
                v.part == part and v.first <= span.first and span.last <= v.last
                for v in self._spans.get(key, ())
            )
            for key, span in zip(window.task_keys(), window.spans, strict=True)
        )

    def of(self, key: TaskKey) -> tuple[VoidSpan, ...]:
        """The batches of a task without effect."""
        return tuple(self._spans.get(key, ()))

    def forget(self, stage: int, epoch: int, done: range, kept: frozenset[int]) -> None:
        """See `Marks.forget`."""
        for key in [k for k in self._spans if not is_open(k, stage, epoch, done, kept)]:
            del self._spans[key]

    def export(self) -> tuple[KeptVoid, ...]:
        """All of them, for a cut."""
        return tuple((key, v) for key, spans in self._spans.items() for v in spans)
