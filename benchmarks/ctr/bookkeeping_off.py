"""A job without its journal and without exactly-once: for `benchmarks bookkeeping` only.

::

    coordinator   outcomes are neither encoded nor written; decisions are the same
    server        windows are not compared with marks, and marks do not move

What stays: windows in messages, and the tick, without which nobody would know how far a
task is. Such a job must not lose anybody: whatever is trained again counts twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from paceline.coordinator.storage import Keeper
from paceline.ids import Window
from paceline.server.decisions.taking import Marks, WindowDecision


def _decide(_: Marks, window: Window, slots: tuple[int, ...]) -> WindowDecision:
    del window
    return WindowDecision("new", slots, "nobody looks")


def _kept(*_: object, **__: object) -> bool:
    return True


def _nothing(*_: object) -> None:
    pass


@contextmanager
def removed() -> Iterator[None]:
    """Jobs that run inside have no bookkeeping."""
    with (
        mock.patch.object(Keeper, "keep", _kept),
        mock.patch.object(Keeper, "compact", _nothing),
        mock.patch.object(Marks, "decide", _decide),
        mock.patch.object(Marks, "advance", _nothing),
    ):
        yield
