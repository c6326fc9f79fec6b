"""A run of k-means as a picture: inertia over iterations and seconds, and the centroids."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

_BLUE, _GRAY = "#0072B2", "#666666"


def draw(
    path: Path,
    inertias: Sequence[float],
    seconds: Sequence[float],
    centroids: NDArray[np.float64],
) -> None:
    """Draw a run into a PNG.

    Args:
        path: of the picture.
        inertias: one an iteration.
        seconds: since the run began, one an iteration.
        centroids: (k, d); drawn as images if d is a square.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subfigures(2, 1, height_ratios=(2, 1))
    over_iterations, over_seconds = above.subplots(1, 2, sharey=True)
    steps = range(1, len(inertias) + 1)
    for axes, x, label in (
        (over_iterations, steps, "iteration"),
        (over_seconds, seconds, "seconds"),
    ):
        axes.plot(x, inertias, color=_BLUE, marker=".")
        axes.set_xlabel(label)
        axes.grid(color="#ECECEC")
        axes.spines[["top", "right"]].set_visible(False)
    over_iterations.set_ylabel("inertia")
    side = round(centroids.shape[1] ** 0.5)
    if side**2 == centroids.shape[1]:
        for axes, centroid in zip(
            below.subplots(1, len(centroids)), centroids, strict=True
        ):
            axes.imshow(centroid.reshape(side, side), cmap="gray_r")
            axes.set_axis_off()
    else:
        below.text(0.5, 0.5, f"{len(centroids)} centroids", ha="center", color=_GRAY)
    figure.savefig(path, dpi=150)
