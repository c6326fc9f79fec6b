"""Records in files: CSV, libsvm, Parquet, text.

::

    files     paths -> files -> ranges of bytes, over fsspec
    lines     where each record of a line file begins
    columns   texts -> a tensor of a dtype that is the same in every batch
    csv, libsvm, parquet, text

The names load when they are asked for: whoever needs one is not given the others.
"""

from typing import TYPE_CHECKING

from paceline.lazy_names import loader

if TYPE_CHECKING:
    from paceline.data.files.csv import Csv
    from paceline.data.files.libsvm import Libsvm, LibsvmBatch
    from paceline.data.files.parquet import Parquet
    from paceline.data.files.text import Text

__all__ = ["Csv", "Libsvm", "LibsvmBatch", "Parquet", "Text"]

_LAZY = {  # {name: the module that defines it}
    "Csv": "paceline.data.files.csv",
    "Libsvm": "paceline.data.files.libsvm",
    "LibsvmBatch": "paceline.data.files.libsvm",
    "Parquet": "paceline.data.files.parquet",
    "Text": "paceline.data.files.text",
}
# Hidden from type checkers: a visible __getattr__ would make every misspelt name typed.
if not TYPE_CHECKING:
    __getattr__ = loader(__name__, _LAZY)
