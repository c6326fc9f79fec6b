"""Whether values that were read are whole: each of one version, and of which.

Pushes of the same constant to every element leave all elements of a block equal after each
update, so a mixture of two versions shows. A model has several parameters of equal shape,
each cut once for each server: what one server holds is of one moment, in rounds all is.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from paceline.params.published import Bytes, ValuesReader


def why_torn(values: Sequence[Tensor], servers: int, *, is_round: bool) -> str | None:
    """What is torn; None if nothing is.

    Args:
        values: parameters of one length, cut into ``servers`` blocks of equal length.
        servers: how many.
        is_round: whether all servers must stand at one and the same update.
    """
    seen = []  # of each server: least and greatest element of its blocks
    for blocks in zip(*(value.chunk(servers) for value in values), strict=True):
        ends = [block.aminmax() for block in blocks]
        seen.append((min(float(e.min) for e in ends), max(float(e.max) for e in ends)))
    if is_round:
        seen = [(min(least for least, _ in seen), max(most for _, most in seen))]
    torn = [f"{least:g} beside {most:g}" for least, most in seen if least != most]
    return f"versions {', '.join(torn)}" if torn else None


def read_regardless(
    reader: ValuesReader, places: Mapping[int, Bytes], at_round: int
) -> int | None:
    """The mutant: read whatever lies there, be it changing or not."""
    for slot, block in reader._blocks.items():
        np.copyto(places[slot], block)
    return max(int(reader._words[3]), at_round)
