"""Words of a torch ``DataLoader`` that `Session.batches` does not have, and what to write.

Pure.
"""

from collections.abc import Collection
from typing import Final

from paceline.errors import UsageError

_ORDER: Final = (
    "tasks are handed out in an order of the job's own: shuffle=True and seed=, or "
    "shuffle=False; some of the records are a Subset"
)
_UNNEEDED: Final = "leave it out, it is not needed"
_READERS: Final = "leave it out; workers=n are processes that read ahead"
_INSTEAD: Final = {
    "num_workers": "write workers=n",
    "drop_last": (
        "every record counts, so there is none; a last batch of one record breaks "
        "BatchNorm: choose a batch_size that does not leave one, or drop such a record of "
        "the data set"
    ),
    "pin_memory": _UNNEEDED,
    "pin_memory_device": _UNNEEDED,
    "sampler": _ORDER,
    "batch_sampler": _ORDER,
    "generator": "write seed=",
    "prefetch_factor": _READERS,
    "persistent_workers": _READERS,
    "worker_init_fn": _READERS,
    "multiprocessing_context": _READERS,
}


def check_words(unknown: Collection[str]) -> None:
    """Refuse named arguments that `Session.batches` does not know.

    Raises:
        UsageError: there is one; it says what to write instead.
    """
    for word in unknown:
        instead = _INSTEAD.get(
            word,
            "it takes dataset, batch_size, epochs, shuffle, seed, task_size, collate_fn, "
            "workers and lookahead",
        )
        raise UsageError(f"batches: there is no {word}=: {instead}")
