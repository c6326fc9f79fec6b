"""Who would like which film: matrix factorisation, in four models of computation.

::

    python examples/factorisation/mf.py
    paceline run --trainers 2 examples/factorisation/mf.py --algorithm sgd --model no-sync

One trainer looks at the ratings that were held out, once an epoch, and draws what it saw.
"""

import argparse
from pathlib import Path

import ccd
import sgd
from look import Look, draw
from plain import Settings
from ratings import dealt, generated, movielens
from work import Work

import paceline

ALGORITHMS = {"sgd": sgd.MODELS, "ccd": ccd.MODELS}
DATA = {  # {name: (where the ratings come from, settings that suit them)}
    "movielens": (movielens, Settings()),
    "generated": (
        lambda: generated(300, 200, 60_000, factors=2, noise=0.5),
        Settings(k=2, rate=0.02, penalty=0.01, decay=0.9),
    ),
}


def parse_flags() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="sgd")
    parser.add_argument("--model", default="no-sync", help="of computation")
    parser.add_argument("--data", choices=DATA, default="movielens")
    parser.add_argument("--epochs", type=int, help="as many as suit the algorithm")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--blocks", type=int, default=8)
    for name, kind in Settings.__annotations__.items():
        parser.add_argument(f"--{name}", type=kind, help="as suits the data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, help="a PNG of the error over seconds")
    flags = parser.parse_args()
    models = ALGORITHMS[flags.algorithm]
    if flags.model not in models:
        parser.error(
            f"--model: expected one of {', '.join(models)} for {flags.algorithm}, "
            f"got {flags.model!r}"
        )
    return flags


def main() -> None:
    """Train, and look."""
    flags = parse_flags()
    make, suited = DATA[flags.data]
    said = {name: getattr(flags, name) for name in Settings._fields}
    settings = suited._replace(**{name: x for name, x in said.items() if x is not None})
    split = dealt(make(), flags.blocks)
    epochs = flags.epochs or {"sgd": 30, "ccd": 20}[flags.algorithm]
    work = Work(split, settings, epochs, flags.batch_size, flags.blocks, seed=flags.seed)

    session = paceline.connect()
    running = ALGORITHMS[flags.algorithm][flags.model](session, work)
    look = Look(session, split, running)
    look.until_the_end()
    if look.seen and flags.picture is not None:
        draw(look, f"{flags.algorithm}, {flags.model}", split.floor, flags.picture)


if __name__ == "__main__":
    main()
