"""What a pace says: updated in rounds or at once, when to push, when to pull, what weighs.

One function per question, total over all paces; trainers, servers and the coordinator ask
the same ones.

Pure.
"""

from paceline.config import Pace, Sync


def updates_in_rounds(pace: Pace) -> bool:
    """Whether pushes are prepared and committed together, or applied at once."""
    return isinstance(pace, Sync)


def push_due(pace: Pace, num_batches: int, *, must_close: bool) -> bool:
    """Whether a window of ``num_batches`` stepped batches is pushed now.

    Args:
        pace: of the part.
        num_batches: batches in the open window.
        must_close: the window ends here whatever its size: an edge, the end of a task.
    """
    return isinstance(pace, Sync) or must_close or num_batches >= pace.push_every


def pushes_per_update(pace: Pace) -> int:
    """How many pushes that wait for a slot may become one update of it."""
    return 1 if isinstance(pace, Sync) else pace.merge


def overlaps(pace: Pace) -> bool:
    """Whether a trainer computes on while its last push is under way.

    Values may lack the trainer's own last ``pull_every - 1`` batches. A window of
    ``push_every`` takes so many less one; if as many again are left, the push before need
    not be waited for.
    """
    return not isinstance(pace, Sync) and pace.pull_every >= 2 * pace.push_every


def pull_due(pace: Pace, num_batches: int, *, has_pushed: bool) -> bool:
    """Whether parameters are fetched now; rounds pull by themselves.

    Args:
        pace: of the part.
        num_batches: batches since values were fetched last.
        has_pushed: a push has just left, so that these would be in what is fetched.
    """
    if isinstance(pace, Sync):
        return False
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
