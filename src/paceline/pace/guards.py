"""What guards decide: how long a step is, what is too old, what is too wild.

::

    age of a push    updates that the server has applied since the values it was computed on
    its step         lr * rate,  rate = 1 / max(1, age)^scale * min(1, update / warmup)

An update's number counts from 1, over the life of the part: a joiner does not begin anew,
and a return to a cut goes back to the cut's.

Pure. Sources: staleness-aware step sizes, Zhang and others 2015 (arXiv 1511.05950),
equation 5, which is ``scale=1``; gradual warm-up, Goyal and others 2017, section 2.2.
"""

from paceline.config import Pace


def rate_of(pace: Pace, *, age: int, version: int) -> float:
    """What the learning rate of an update is multiplied by.

    ``age``: of the push; in rounds 0. ``version``: updates that were applied before it.
    """
    guards, rate = pace.guards, 1.0
    if guards is None:
        return rate
    if guards.scale is not None and age > 1:
        rate /= age**guards.scale
    if guards.warmup is not None and version + 1 < guards.warmup:
        rate *= (version + 1) / guards.warmup
    return rate


def bounds_ages(pace: Pace) -> bool:
    """Whether a push may be too old to be applied."""
    return pace.guards is not None and pace.guards.drop is not None


def is_too_old(pace: Pace, age: int) -> bool:
    """Whether a push of this age is not applied."""
    guards = pace.guards
    return guards is not None and guards.drop is not None and age > guards.drop


def trains_old_again(pace: Pace) -> bool:
    """Whether batches of a push that is too old go back to the queue."""
    return pace.guards is not None and pace.guards.old == "again"


def why_not_shared(pace: Pace, num_processes: int) -> str | None:
    """Why a trainer of so many processes cannot have this pace; None if it can."""
    for option in ("norm", "compensate"):
        if num_processes > 1 and getattr(pace.guards, option, None) is not None:
            return (
                f"{pace} with --ranks-per-trainer: each of {num_processes} processes "
                f"pushes a share of the gradients, and {option} looks at all of them: use "
                f"--ranks-per-trainer 1, or leave {option} out"
            )
    return None


def compensation_of(pace: Pace) -> float | None:
    """Lambda of DC-ASGD; None: gradients are applied as they come."""
    return None if pace.guards is None else pace.guards.compensate


def most_norm(pace: Pace, usual: float | None) -> float | None:
    """The norm beyond which a push is not applied; None: there is none, or not yet.

    ``usual``: the median norm of the trainer's last pushes; None: too few were seen.
    """
    guards = pace.guards
    if guards is None or guards.norm is None or usual is None:
        return None
    return guards.norm * usual


def age_range(age: int) -> str:
    """In which line of a histogram an age is counted: ``0``, ``1``, ``2-3``, ``4-7``..."""
    if age <= 1:
        return str(max(0, age))
    least = min(1 << (age.bit_length() - 1), _OLDEST)
    return f"{least}-{2 * least - 1}" if least < _OLDEST else f"{_OLDEST}-"


_OLDEST = 1 << 12
