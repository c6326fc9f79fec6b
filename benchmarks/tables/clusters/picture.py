"""Draws what `benchmarks clusters` has found: bars, one a candidate.

Pure, but for the file that it writes.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.figures import Figure
from benchmarks.harness.record import spread
from paceline.watch.draw import STYLE, import_pyplot

COLORS = {"ours": "#0072B2", "peer": "#B8B8B8", "floor": "#009E73"}


def draw_figures(path: Path, figures: Sequence[Figure]) -> None:
    """A PNG of processor times: medians with their ends.

    The clock's times stand in the record; who else is at work changes them many times over.
    """
    pyplot = import_pyplot()
    figures = [figure for figure in figures if "processor" in figure.what]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            figsize=(8, 0.9 + 0.36 * len(figures)), layout="constrained"
        )
        for place, found in enumerate(reversed(figures)):
            middle, least, most, _ = spread(found.values)
            axes.barh(place, middle, color=COLORS[found.kind], height=0.7)
            axes.plot([least, most], [place, place], color="#222222", linewidth=1)
        names = [figure.who for figure in figures]
        axes.set_yticks(range(len(figures)), names[::-1])
        axes.set_xlabel("processor milliseconds of an iteration over all points")
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
