"""How something went, as a picture; needs matplotlib."""

from collections.abc import Mapping
from pathlib import Path


def draw(
    path: Path, values: Mapping[float, float], names: tuple[str, str], title: str
) -> None:
    """A line through the values.

    Args:
        path: of a PNG.
        values: {where: how much}, in order.
        names: of where, and of how much.
        title: above it.
    """
    from matplotlib import pyplot as plt  # noqa: PLC0415  (an extra: only drawing needs it)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(list(values), list(values.values()), marker="o", markersize=3)
    axes.set(title=title, xlabel=names[0], ylabel=names[1])
    figure.savefig(path, dpi=140)
    plt.close(figure)
