"""Held pushes of one server and the locks that they are written under.

What a held push has, its numbers and its lock, waits here until its step is committed or
its trainer fenced. A lock is let go in the same breath as the write under it is decided, so
that whoever is next reads behind it.

Waits for nothing. Called under the lock of the `ServerCore`.
"""

from collections.abc import Callable, Mapping
from typing import final

from paceline.messages.data import Push
from paceline.server.decisions import ServerState
from paceline.server.decisions.verdicts import Verdict
from paceline.server.locks.part_locks import Grants, Locks
from paceline.server.requests.contents import PushContents
from paceline.server.slots import Actions, Slots

Steps = Mapping[int, Mapping[int, int]]  # {incarnation: {part: committed push}}


@final
class HeldPushes:
    """Held pushes and locks of one timeline.

    Attributes:
        locks: who may change which rows.
        turns: requests for locks whose turn has come, until somebody answers them.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Nothing is held, nothing is locked."""
        self.locks = Locks(timeline=0)
        self.turns: Grants = []
        self._now_s = now_s
        self._contents: dict[tuple[int, int], PushContents] = {}  # {(part, incarnation)}

    def why_lost(self, push: Push, contents: PushContents) -> str | None:
        """Why the lock that a push is made under does not allow it; None if it does."""
        if push.token is not None:
            self.turns += self.locks.expire(self._now_s())
        return self.locks.why_lost(push, contents)

    def decided(self, push: Push, verdict: Verdict, contents: PushContents) -> None:
        """What was decided of a push: its lock is let go, or held with it."""
        if verdict == "hold":
            self._contents[push.part, push.incarnation] = contents
            self.locks.bind(push.part, push.token)
        elif verdict not in {"held", "repeat", "refuse"}:
            self.turns += self.locks.settle(push.part, push.token, self._now_s())

    def taking(
        self, state: ServerState, slots: Slots, steps: Steps
    ) -> tuple[Actions, list[tuple[int, int]]]:
        """Held pushes of committed steps have their effect.

        Returns:
            What happens to the slots, and of whom: (incarnation, part).
        """
        actions: Actions = {}
        whose = []
        for incarnation, step in steps.items():
            for part, held in state.steps().take(incarnation, step).items():
                contents = self._contents.pop((part, incarnation))
                actions |= slots.applying(part, contents, held.slots)
                self.turns += self.locks.settle(part, held.token, self._now_s())
                whose.append((incarnation, part))
        return actions, whose

    def drop(self, state: ServerState, incarnation: int, step: Mapping[int, int]) -> None:
        """Held pushes that will never be committed: their locks are let go."""
        for part, held in state.steps().drop(incarnation, step).items():
            del self._contents[part, incarnation]
            self.turns += self.locks.settle(part, held.token, self._now_s())

    def fence(self, incarnation: int) -> None:
        """An incarnation is over: what it holds never has an effect, its locks end."""
        for key in [key for key in self._contents if key[1] == incarnation]:
            del self._contents[key]
        self.turns += self.locks.fence(incarnation, self._now_s())

    def enter(self, timeline: int) -> None:
        """A timeline is entered: no step of the one before is committed any more."""
        self._contents.clear()
        self.locks = Locks(timeline)
        self.turns = []
