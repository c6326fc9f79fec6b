"""Where examples come from: the first room on a record's way.

::

    split    an epoch's positions -> tasks -> batches          (pure)
    order    positions -> records, shuffled by (seed, epoch)   (pure)
    opening  what the user gave -> its source, or what to give instead (not_data)
    source   records -> a batch of the user's data: tensors, Hugging Face
    map_style   any other data set; a Subset of any
    files/   the same from files: CSV, libsvm, Parquet, text
    ahead    batches read ahead, by other processes
    cells    records by the block of a rotation that they touch
    sets/    public data sets by name, fetched and checked

The names here load lazily: `split` and `order` do not import torch, and the coordinator
cuts tasks without it. Only `Parquet`, when it is made, imports pyarrow.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.data.files import Csv, Libsvm, LibsvmBatch, Parquet, Text

__all__ = ["Csv", "Libsvm", "LibsvmBatch", "Parquet", "Text"]

_LAZY = dict.fromkeys(__all__, "paceline.data.files")  # {public name: where it is}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted(__all__)
