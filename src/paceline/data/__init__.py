"""Where examples come from: the first room on a record's way.

::

    split    an epoch's positions -> tasks -> batches          (pure)
    order    positions -> records, shuffled by (seed, epoch)   (pure)
    opening  what the user gave -> its source, or what to give instead (not_data)
    source   records -> a batch of the user's data: tensors, Hugging Face
    map_style, picked                any other data set; a Subset of any
    parquet, csv, libsvm, text       the same from files
    columns  texts -> a tensor of a dtype that is the same in every batch
    lines    where each record of a line file begins
    files    paths -> files -> ranges of bytes, over fsspec
    sets     public data sets by name, fetched and checked

The names here load lazily: `split` and `order` do not import torch, and the coordinator
cuts tasks without it. Only `Parquet`, when it is made, imports pyarrow.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.data.csv import Csv
    from paceline.data.libsvm import Libsvm, LibsvmBatch
    from paceline.data.parquet import Parquet
    from paceline.data.text import Text

__all__ = ["Csv", "Libsvm", "LibsvmBatch", "Parquet", "Text"]

_LAZY = {  # {public name: the module that defines it}
    "Csv": "paceline.data.csv",
    "Libsvm": "paceline.data.libsvm",
    "LibsvmBatch": "paceline.data.libsvm",
    "Parquet": "paceline.data.parquet",
    "Text": "paceline.data.text",
}


# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted(__all__)
