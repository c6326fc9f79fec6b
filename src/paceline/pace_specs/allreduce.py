"""The pace of a model without servers, as it is written: `AllReduce`."""

import msgspec


class AllReduce(msgspec.Struct, frozen=True, tag="allreduce"):
    """As `Sync`, but every trainer keeps model and optimizer, and gradients travel between.

    Each round takes the mean over the records of all trainers with work, to the same bits
    on all of them; each trainer then steps with its own optimizer. Parameters and the
    optimizer's state are tracked: who joins has them, checkpoints hold them.
    """

    def __str__(self) -> str:
        """As it is called."""
        return "allreduce"
