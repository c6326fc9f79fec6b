"""Fragments of a model whose rounds take turns, and rounds that nobody waits for.

::

    batch       h/3 . . . . 2h/3 . . . . h . . . . 4h/3 . . . . 5h/3
    pushed      fragment 0  fragment 1   fragment 2  fragment 0   fragment 1

Each fragment is a part of its own, and has a round every ``h`` batches; the rounds of all
are spread evenly, so that a third of the bytes goes out at a time. With an overlap of ``t``
a trainer goes on for ``t`` batches before it takes in what has become of a push::

    local <- mix * local + (1 - mix) * shared

Source: Douillard et al. 2025, Streaming DiLoCo, algorithm 2.

Pure.
"""

from collections.abc import Sequence

from paceline.config import DiLoCo, Pace


def fragments_of(pace: Pace) -> int:
    """How many parts of its own a model is shared as."""
    return pace.fragments if isinstance(pace, DiLoCo) else 1


def round_overlap(pace: Pace) -> int:
    """Batches that a trainer goes on for while a round of its own is under way."""
    return pace.overlap if isinstance(pace, DiLoCo) else 0


def mix_of(pace: Pace) -> float:
    """The share of a trainer's own values in those that it goes on with after a round."""
    return pace.mix if isinstance(pace, DiLoCo) else 0.0


def takes_turns(pace: Pace) -> bool:
    """Whether pushes are due by turns, and need not be waited for at once."""
    return fragments_of(pace) > 1 or round_overlap(pace) > 0


def are_fragments(paces: Sequence[Pace]) -> bool:
    """Whether parts of these paces are fragments of one model, or some of them."""
    return len(set(paces)) == 1 and len(paces) <= fragments_of(paces[0])


def batches_of_turn(pace: Pace, fragment: int) -> int:
    """Batches between the push before and that of a fragment; of all, they make `every`."""
    assert isinstance(pace, DiLoCo)
    every, count = pace.every, pace.fragments
    return every * (fragment + 1) // count - every * fragment // count


def cut_fragments(sizes: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Whole parameters of these ``sizes`` dealt out, so that fragments are nearly of one.

    The largest first, each to the fragment that has the least so far: the numbers of its
    parameters, ascending; none is empty. The same on every machine; the paper finds that
    fragments of neighbors are no better than others.
    """
    assert 1 <= count <= len(sizes)
    fragments: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        least = min(fragments, key=lambda one: (sum(sizes[i] for i in one), len(one)))
        least.append(index)
    return tuple(sorted(tuple(sorted(one)) for one in fragments))
