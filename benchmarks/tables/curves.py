"""How far runs have come, drawn by epochs and by seconds: the two factors of a time.

Waits: for the disk.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paceline.errors import UsageError
from paceline.watch.pictures import (
    COLORS,
    MUTED,
    STYLE,
    check_ending,
    import_pyplot,
    save,
)

LINES = ("-", "--", ":")  # one after the other, when colors are used up


class Curve(NamedTuple):
    """What was seen of a run, look by look."""

    epochs: Sequence[float]
    seconds: Sequence[float]
    values: Sequence[float]


def picture_at(text: str) -> Path:
    """Where to draw, as an option says it: refused before anything is run.

    Raises:
        ArgumentTypeError: no picture is written with such an ending.
    """
    picture = Path(text)
    try:
        check_ending(picture)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return picture


def draw(curves: Mapping[str, Curve], target: float, what: str, picture: Path) -> None:
    """Draw what all are to come to as well; ``what`` is the name of the values."""
    pyplot = import_pyplot()
    with pyplot.rc_context(STYLE):
        figure, both = pyplot.subplots(
            1, 2, figsize=(11, 4), sharey=True, layout="constrained"
        )
        for number, (who, curve) in enumerate(curves.items()):
            again, which = divmod(number, len(COLORS))
            line = LINES[again % len(LINES)]
            for axes, along in zip(both, (curve.epochs, curve.seconds), strict=True):
                axes.plot(along, curve.values, line, label=who, color=COLORS[which])
        for axes, words in zip(both, ("epochs", "seconds"), strict=True):
            axes.axhline(target, color=MUTED, linestyle=":")
            axes.set_xlabel(words)
        both[0].set_ylabel(what)
        both[0].legend()
        save(figure, picture)
        pyplot.close(figure)
