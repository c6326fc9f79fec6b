"""Whose turn it is to be pushed, among the fragments of a model.

Every trainer pushes fragments in the same circle, and a round waits for all: so a trainer
that is at one fragment's round never waits for one that is at another's. Where windows
end early (an edge, no more work) they are pushed in this order, too. Who enters finds its
place by the rounds: the next in turn is the first that has had the fewest.

Pure.
"""

from collections.abc import Iterable
from typing import final

from paceline.pace.fragments import batches_of_turn
from paceline.trainer.parts import SharedPart


@final
class Turns:
    """The circle of one trainer's fragments; other parts have no turn."""

    def __init__(self, parts: dict[int, SharedPart]) -> None:
        """The parts are the trainer's own."""
        self._parts = parts
        self._next = 0  # place in the circle

    def enter(self) -> None:
        """A lease has come, and none was held: parts know their rounds."""
        rounds = [part.round for part in self._circle()]
        self._next = rounds.index(min(rounds)) if rounds else 0

    def pushed(self, part: SharedPart) -> None:
        """A fragment has had its turn."""
        circle = self._circle()
        assert circle[self._next] is part, f"part {part.spec.part} is not next in turn"
        self._next = (self._next + 1) % len(circle)

    def is_due(self, part: SharedPart) -> bool:
        """Whether it is a fragment's turn with the batches delivered so far."""
        circle = self._circle()
        if circle[self._next] is not part:
            return False
        since = min(one.window.num_batches(with_delivered=True) for one in circle)
        return since >= batches_of_turn(part.spec.pace, self._next)

    def has_gone_far(self, part: SharedPart) -> bool:
        """Whether as many batches were taken since a fragment's push as overlap it."""
        since = part.window.num_batches(with_delivered=True)
        return since >= part.overlap

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Parts in the order in which they step: fragments last, by their turns."""
        circle = [part.spec.part for part in self._circle()]
        turned = circle[self._next :] + circle[: self._next]
        some = list(numbers)
        return [n for n in some if n not in turned] + [n for n in turned if n in some]

    def are_stepped_over(self) -> bool:
        """Whether fragments hold batches, and the user has stepped over all of them."""
        windows = [part.window for part in self._circle()]
        is_open = any(window.is_open() for window in windows)
        return is_open and not any(window.has_delivered() for window in windows)

    def are_alone(self) -> bool:
        """Whether there are no other parts."""
        return all(part.takes_turns for part in self._parts.values())

    def _circle(self) -> list[SharedPart]:
        return [part for _, part in sorted(self._parts.items()) if part.takes_turns]
