"""Whether a script would end so again: two of its incarnations have, on other data.

::

    the same exception, at the same line, after as many batches of their own, the second
    begun when the first had ended (else what they met at once may have passed)
        while they held different tasks, or none    a bug: the job ends
        while they held the same task               a record may be the reason: the task is
                                                    tried again, and given up in time
    an error of the operating system's, or of the job's own   may pass: tried again

A batch at which the same line has failed before is under suspicion itself, and tells
nothing of the script.

Pure.
"""

from typing import NamedTuple, final

from paceline.launch.supervise.failure import Failure

_Met = tuple[str, str, str | None, int]  # exception, line, task and batch


class _Ended(NamedTuple):
    role: str
    failure: Failure
    at_s: float


@final
class Failures:
    """The failures of a job's scripts."""

    def __init__(self) -> None:
        self._ended: list[_Ended] = []
        self._seen: dict[_Met, int] = {}  # {what failed where: how often}
        self._told: dict[str, tuple[int, str]] = {}  # {role: how often, the last one}

    def note(
        self, role: str, failure: Failure | None, otherwise: str, since_s: float, now: float
    ) -> str | None:
        """A script has failed; why the job ends with it, if it does.

        ``otherwise`` is to be said of one that could tell nothing; this incarnation of it
        was started at ``since_s``.
        """
        count, _ = self._told.get(role, (0, ""))
        self._told[role] = (count + 1, str(failure) if failure is not None else otherwise)
        if failure is None or not failure.is_own:
            return None
        met = _met(failure)
        self._seen[met] = self._seen.get(met, 0) + 1
        before = next(
            (
                ended
                for ended in self._ended
                if ended.at_s <= since_s and self._is_same(ended.failure, failure)
            ),
            None,
        )
        self._ended.append(_Ended(role, failure, now))
        if before is None:
            return None
        who = "it" if before.role == role else before.role
        where = "with other data" if failure.task is not None else "outside of a loop"
        return f"{role} ended {where} as {who} had before: {failure} of its own"

    def told(self) -> list[str]:
        """One sentence for each trainer whose script has failed."""
        return [
            f"{role} failed on the way, {_times(count)}: {last}"
            for role, (count, last) in sorted(self._told.items())
        ]

    def _is_same(self, one: Failure, other: Failure) -> bool:
        if (one.kind, one.place, one.batches) != (other.kind, other.place, other.batches):
            return False
        if one.task is None or other.task is None:
            return True
        is_known = self._seen[_met(one)] > 1 or self._seen[_met(other)] > 1
        return one.task != other.task and not is_known


def _met(failure: Failure) -> _Met:
    return (failure.kind, failure.place, failure.task, failure.batch)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
