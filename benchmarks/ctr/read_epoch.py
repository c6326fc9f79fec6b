"""One epoch of a file in shuffled batches, by paceline or by a peer; `readers` starts it.

::

    paceline      opens the file, cuts the epoch into tasks as a session does, reads them
    pandas        reads the whole file, then takes the rows of each batch
    scikit-learn  the same for files in the format of LIBSVM

Each imports its own library alone. What is written is the processor time from the file to
the last batch, and the sum of all numbers, by which the batches are compared.

Waits: for nobody.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Sums = Iterator[float]  # of the numbers of each batch


def by_paceline(path: Path, records: int, batch_size: int) -> Sums:
    """As `Session.batches` reads a source: task by task, each found at once."""
    import torch  # noqa: PLC0415  (the peers have none)

    from paceline import data  # noqa: PLC0415
    from paceline.data.order import records_at  # noqa: PLC0415
    from paceline.data.split import default_task_size  # noqa: PLC0415

    torch.set_num_threads(1)
    kinds: dict[str, Callable[[Path], Any]] = {
        ".svm": data.Libsvm,
        ".csv": data.Csv,
        ".parquet": data.Parquet,
    }
    source = kinds[path.suffix](path)
    task_size = default_task_size(records, batch_size)
    for first in range(0, records, task_size):
        positions = np.arange(first, min(first + task_size, records))
        task = records_at(positions, records, 0, 0, shuffle=True)
        for start in range(0, len(task), batch_size):
            batch = source.batch(task[start : start + batch_size])
            if path.suffix == ".svm":
                yield float(batch.ids.sum() + batch.values.sum() + batch.labels.sum())
            else:
                yield sum(float(column.sum()) for column in batch.values())


def by_pandas(path: Path, records: int, batch_size: int) -> Sums:
    """The whole file as a frame of float32, then rows of it."""
    import pandas as pd  # noqa: PLC0415

    if path.suffix == ".csv":
        # Its usual conversion is quicker, and may be off by the last bit.
        frame = pd.read_csv(path, dtype=np.float32, float_precision="round_trip")
    else:
        frame = pd.read_parquet(path)
    for rows in _shuffled(records, batch_size):
        columns = frame.take(rows)
        yield sum(float(columns[name].to_numpy().sum()) for name in columns)


def by_scikit(path: Path, records: int, batch_size: int) -> Sums:
    """The whole file as a sparse matrix, then rows of it."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    matrix, labels = load_svmlight_file(str(path), zero_based=True)
    for rows in _shuffled(records, batch_size):
        found = matrix[rows]
        yield float(found.indices.sum() + found.data.sum() + labels[rows].sum())


def _shuffled(records: int, batch_size: int) -> Iterator[np.ndarray]:
    order = np.random.default_rng(0).permutation(records)
    for start in range(0, records, batch_size):
        yield order[start : start + batch_size]


READERS = {"paceline": by_paceline, "pandas": by_pandas, "scikit-learn": by_scikit}


def main() -> None:
    """Read two epochs, each from opening on: the first imports and warms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=READERS)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    for _ in range(2):
        began_s = time.process_time()
        total = sum(READERS[flags.role](flags.path, flags.records, flags.batch))
        used_s = time.process_time() - began_s
    flags.out.write_text(json.dumps({"used_s": used_s, "total": total}))


if __name__ == "__main__":
    main()
