"""Who came when to the last rounds, who closed them, and what that costs.

What a round lost by its last comer is how long that came after the one before: so much
``sync:backup=1`` would not have waited for.

Pure.
"""

from collections import Counter, deque
from typing import Any, NamedTuple, final

SHOWN = 60
MOST_SHOWN = 24  # trainers of a round
FRESH_S = 30.0  # since the last round: later nobody is named
LEAST_ROUNDS = 8  # before anybody is named
OFTEN = 0.5  # of the rounds that are shown
WORTH_TELLING = 0.1  # of their time


class ClosedRound(NamedTuple):
    """A round that is closed: when, and after how many seconds each trainer came to it."""

    closed_s: float
    came_s: dict[str, float]

    @property
    def last(self) -> str:
        """Who closed it."""
        return max(self.came_s, key=lambda trainer: self.came_s[trainer])

    @property
    def lost_s(self) -> float:
        """So much later it closed than it would have without the last."""
        before, last = sorted(self.came_s.values())[-2:]
        return last - before


@final
class LastRounds:
    """The last rounds of a job's first part that has any: each step has one."""

    def __init__(self) -> None:
        self.lost_s: dict[str, float] = {}  # {trainer: by its being last, ever}
        self._rounds: deque[ClosedRound] = deque(maxlen=SHOWN)
        self._part: int | None = None
        self._others: Counter[int] = Counter()  # {part: rounds since the last of ours}

    def add(self, at_s: float, event: dict[str, Any]) -> None:
        """Take note of a `RoundCommitted`.

        Raises:
            KeyError: it is another event.
        """
        part = int(event["part"])
        self._choose(part)
        names = [str(one["trainer"]) for one in event["contributions"]]
        came_s = dict(zip(names, map(float, event["came_s"]), strict=True))
        if part != self._part or not came_s:
            return
        closed = ClosedRound(at_s, came_s)
        self._rounds.append(closed)
        if len(came_s) > 1:
            lost_s = self.lost_s.get(closed.last, 0.0) + closed.lost_s
            self.lost_s[closed.last] = lost_s

    def clear(self) -> None:
        """What comes now has nothing to do with what was: another pace, another run."""
        self._part = None
        self._rounds.clear()
        self._others.clear()

    def as_list(self) -> list[list[Any]]:
        """For each: {trainer: seconds after the first}, and who closed it.

        Of many trainers, those that closed most of them.
        """
        closers = Counter(one.last for one in self._rounds)
        names = {name for one in self._rounds for name in one.came_s}
        order = sorted(names, key=lambda name: (-closers[name], len(name), name))
        kept = set(order[:MOST_SHOWN])
        return [
            [{name: s for name, s in one.came_s.items() if name in kept}, one.last]
            for one in self._rounds
        ]

    def straggler(self, now_s: float) -> dict[str, Any] | None:
        """Who is last so often, and for so long, that it is worth telling; or None."""
        if not self._rounds or now_s - self._rounds[-1].closed_s > FRESH_S:
            return None
        shared = [one for one in self._rounds if len(one.came_s) > 1]
        if len(shared) < LEAST_ROUNDS:
            return None
        closers = Counter(one.last for one in shared)
        [(trainer, times)] = closers.most_common(1)
        lost_s = sum(one.lost_s for one in shared if one.last == trainer)
        lasted_s = shared[-1].closed_s - shared[0].closed_s
        if times < OFTEN * len(shared) or lost_s < WORTH_TELLING * lasted_s:
            return None
        return {
            "trainer": trainer,
            "times": times,
            "rounds": len(shared),
            "lost_s": round(lost_s, 2),
            "lasted_s": round(lasted_s, 2),
            "ever_s": round(self.lost_s[trainer], 1),
        }

    def _choose(self, part: int) -> None:
        """Look at the first part; but at another if that has none any more."""
        if part == self._part:
            self._others.clear()
        elif self._part is None or part < self._part:
            self.clear()
            self._part = part
        else:
            self._others[part] += 1
            if self._others[part] >= SHOWN:
                often = [one for one, n in self._others.items() if 2 * n >= SHOWN]
                self.clear()
                self._part = min(often)
