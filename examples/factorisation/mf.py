"""Who would like which film: matrix factorisation, in four models of computation.

::

    python examples/factorisation/mf.py
    paceline run --trainers 2 examples/factorisation/mf.py --algorithm sgd --model no-sync

One trainer looks at the ratings that were held out, once an epoch, and draws what it saw.
"""

import argparse
import time
from pathlib import Path

import ccd
import numpy as np
import sgd
from plain import Settings, test_rmse
from ratings import Split, generated, movielens
from work import Running, Work

import paceline

ALGORITHMS = {"sgd": sgd.MODELS, "ccd": ccd.MODELS}
DATA = {  # {name: (where the ratings come from, settings that suit them)}
    "movielens": (movielens, Settings()),
    "generated": (
        lambda: generated(300, 200, 60_000, factors=2, noise=0.5),
        Settings(k=2, rate=0.02, penalty=0.01, decay=0.9),
    ),
}


class Look:
    """What one trainer sees of the ratings that were held out: once an epoch.

    Attributes:
        seen: (seconds, epochs that are over, RMSE), in order.
    """

    def __init__(self, session: paceline.Session, split: Split, running: Running) -> None:
        """Begin to count seconds."""
        self._session, self._split, self._running = session, split, running
        self._is_looking = session.once("look")
        self._began_s, self._epoch = time.monotonic(), 0
        self.seen: list[tuple[float, int, float]] = []

    def after_step(self) -> None:
        """Look if an epoch is over."""
        if self._is_looking and self._session.epoch > self._epoch:
            self._epoch = self._session.epoch
            self.now(self._epoch)

    def now(self, epochs: int) -> None:
        """Look: all rows are read."""
        if self._is_looking:
            seconds = time.monotonic() - self._began_s
            error = test_rmse(self._split, *self._running.rows())
            self.seen.append((seconds, epochs, error))
            self._session.log(rmse=error)


def draw(look: Look, title: str, floor: float | None, picture: Path) -> None:
    """RMSE over seconds, as a PNG; needs matplotlib."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  (an extra: only drawing needs it)

    seconds, _, errors = np.array(look.seen).T
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(seconds, errors, marker="o", markersize=3, label="held out")
    if floor is not None:
        axes.axhline(floor, color="gray", linestyle=":", label="noise")
    axes.set(title=title, xlabel="seconds", ylabel="RMSE")
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=140)
    plt.close(figure)


def parse_flags() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="sgd")
    parser.add_argument("--model", default="no-sync", help="of computation")
    parser.add_argument("--data", choices=DATA, default="movielens")
    parser.add_argument("--epochs", type=int, help="as many as suit the algorithm")
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--parts", type=int, default=4)
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
    split = make()
    epochs = flags.epochs or {"sgd": 30, "ccd": 10}[flags.algorithm]
    work = Work(split, settings, epochs, flags.batch_size, flags.parts, flags.seed)

    session = paceline.connect()
    running = ALGORITHMS[flags.algorithm][flags.model](session, work)
    look = Look(session, split, running)
    for _ in running.steps:
        look.after_step()
    look.now(epochs)
    if look.seen and flags.picture is not None:
        draw(look, f"{flags.algorithm}, {flags.model}", split.floor, flags.picture)


if __name__ == "__main__":
    main()
