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


def pull_due(pace: Pace, num_batches: int) -> bool:
    """Whether parameters are fetched after so many batches; rounds pull by themselves."""
    return not isinstance(pace, Sync) and num_batches >= pace.pull_every


def weigh(pace: Pace, records: int, total: int) -> float:
    """The weight of a contribution of ``records`` in a round of ``total`` records.

    ``records / total`` makes the round the mean over all records, as one process would
    have it on the joined batch; 1 sums.
    """
    is_sum = isinstance(pace, Sync) and pace.reduce == "sum"
    return 1.0 if is_sum else records / total
