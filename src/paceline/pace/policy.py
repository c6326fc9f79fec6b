"""What a pace says: when to go on, when to push and pull, how pushes are applied.

One function per question, total over all paces; trainers, servers and the coordinator ask
the same ones.

Pure.
"""

from collections.abc import Iterable

from paceline.config import SSP, Async, Pace, Sync


def updates_in_rounds(pace: Pace) -> bool:
    """Whether pushes are prepared and committed together, or applied at once."""
    return isinstance(pace, Sync)


def staleness_of(pace: Pace) -> int | None:
    """How many steps a trainer may be ahead of the slowest; None: clocks do not matter.

    Rounds hold trainers together by themselves.
    """
    return pace.staleness if isinstance(pace, SSP) else None


def is_within(staleness: int, clock: int, slowest: int) -> bool:
    """Whether a trainer at ``clock`` may go on while the slowest is at ``slowest``.

    Also whether values that were fetched when the slowest was there still serve. All
    updates of the steps up to ``clock - staleness`` are in them (Ho 2013, section 3).
    """
    return clock - slowest <= staleness


def why_not_beside(paces: Iterable[Pace]) -> str | None:
    """Why parts of these paces cannot be trained in one job; None if they can.

    A part in rounds holds all trainers within one step of each other, which is as much as
    any staleness but 0 asks for.
    """
    known = list(paces)
    in_rounds = [pace for pace in known if updates_in_rounds(pace)]
    strictest = [pace for pace in known if staleness_of(pace) == 0]
    if not in_rounds or not strictest:
        return None
    return (
        f"one part is {in_rounds[0]}, another {strictest[0]}: beside a part in rounds "
        f"trainers can be one step apart, which ssp:0 forbids; use ssp:1, or sync for both"
    )


def push_due(pace: Pace, num_batches: int, *, must_close: bool) -> bool:
    """Whether a window of ``num_batches`` stepped batches is pushed now.

    Args:
        pace: of the part.
        num_batches: batches in the open window.
        must_close: the window ends here whatever its size: an edge, the end of a task.
    """
    every = pace.push_every if isinstance(pace, Async) else 1
    return must_close or num_batches >= every


def pushes_per_update(pace: Pace) -> int:
    """How many pushes that wait for a slot may become one update of it."""
    return pace.merge if isinstance(pace, Async) else 1


def overlaps(pace: Pace) -> bool:
    """Whether a trainer computes on while its last push is under way.

    Values may lack the trainer's own last ``pull_every - 1`` batches. A window of
    ``push_every`` takes so many less one; if as many again are left, the push before need
    not be waited for.
    """
    return isinstance(pace, Async) and pace.pull_every >= 2 * pace.push_every


def pull_due(pace: Pace, num_batches: int, *, has_pushed: bool) -> bool:
    """Whether parameters are fetched now; rounds pull by themselves.

    Args:
        pace: of the part.
        num_batches: batches since values were fetched last.
        has_pushed: a push has just left, so that these would be in what is fetched.
    """
    if isinstance(pace, Sync):
        return False
    if isinstance(pace, SSP):
        return num_batches >= 1 or has_pushed
    if not has_pushed:
        return num_batches >= pace.pull_every
    # The next chance is one push later, and what overlaps comes a push later still.
    late = pace.push_every if overlaps(pace) else 0
    return num_batches + pace.push_every > pace.pull_every - late


def weigh(pace: Pace, records: int, total: int) -> float:
    """The weight of a contribution of ``records`` in a round of ``total`` records.

    ``records / total`` makes the round the mean over all records, as one process would
    have it on the joined batch; 1 sums.
    """
    is_sum = isinstance(pace, Sync) and pace.reduce == "sum"
    return 1.0 if is_sum else records / total
