"""A trainer of the factorisation example that is measured: all its numbers are an argument.

Trainers meet before the clock begins, and compiled loops are loaded. One of them looks at
the error on what was held out after every epoch; where it is low enough, the job stops.
"""

import logging
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples" / "factorisation"))

# The example's modules import each other by plain names, as those of any script do.
import descent  # noqa: E402
import sgd  # noqa: E402
from look import Look  # noqa: E402
from plain import Settings, begun  # noqa: E402
from ratings import Ratings, Split, dealt  # noqa: E402
from work import Work  # noqa: E402

import paceline  # noqa: E402

SEED = 0  # of the order


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a trainer is to do.

    Args:
        data: a file of arrays, as `write_split` makes it.
        out: where the trainer that looks writes what it saw.
        model: of computation.
        settings: of the method.
        epochs: at most.
        target: the error at which the job stops.
        look_from: the first epoch behind which there is a look.
        batch_size: as in `work.Work`.
        blocks: the same.
        slices: the same.
        sleep_s: how long a trainer sleeps for each rating, so that cores do not matter.
    """

    data: str
    out: str
    model: str = "no-sync"
    settings: tuple[float, ...] = Settings()
    epochs: int = 50
    target: float = 0.0
    look_from: int = 1
    batch_size: int = 8192
    blocks: int = 8
    slices: int = 2
    sleep_s: float = 0.0


def write_split(split: Split, path: Path) -> None:
    """Keep ratings as arrays of one file, which peers read too."""
    test = {f"test_{name}": column for name, column in split.test._asdict().items()}
    counts = np.array([split.num_users, split.num_items])
    np.savez(path, **split.train._asdict(), **test, counts=counts)  # type: ignore[arg-type]  # the stub takes a keyword for an option


def read_split(path: Path) -> Split:
    """What `write_split` kept; the floor is not."""
    with np.load(path, allow_pickle=False) as arrays:
        train = Ratings(*(arrays[name] for name in Ratings._fields))
        test = Ratings(*(arrays[f"test_{name}"] for name in Ratings._fields))
        num_users, num_items = arrays["counts"].tolist()
    mean = float(train.values.mean(dtype=np.float64))
    return Split(train, test, num_users, num_items, mean)


def warm(split: Split, settings: Settings) -> None:
    """Load the compiled loops, as a first call does."""
    some = split.train.take(np.arange(8))
    p, q = begun(split, settings, 0)
    zero, one = np.float32(0), np.array([0, 1])
    descent.step_along(p, q, *some, zero, zero, zero)
    descent.descend(p[:1], q, one, some.items[:1], some.values[:1], zero, zero, 0, 1)
    descent.rmse(p, q, *some, zero)


def main() -> None:
    """Meet the others, learn, and write what was seen."""
    logging.basicConfig(level=logging.INFO)  # a rotation says how long it waited
    told = msgspec.json.decode(sys.argv[1], type=Told)
    split, settings = read_split(Path(told.data)), Settings(*told.settings)
    split = dealt(split, told.blocks)
    settings = settings._replace(k=int(settings.k))
    warm(split, settings)
    work = Work(
        split,
        settings,
        told.epochs,
        told.batch_size,
        told.blocks,
        told.slices,
        SEED,
        lambda ratings: time.sleep(told.sleep_s * ratings) if told.sleep_s else None,
    )
    session = paceline.connect()
    running = sgd.MODELS[told.model](session, work)
    for _ in session.batches((torch.arange(1),), batch_size=1):
        pass  # nobody is over before all are here
    look = Look(session, split, running, told.look_from)
    look.until_the_end(told.target)
    if look.seen:
        Path(told.out).write_bytes(msgspec.json.encode(look.seen))


if __name__ == "__main__":
    main()
