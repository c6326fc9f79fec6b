"""A trainer that waits for a block which it looks for waits; it does not compute."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from paceline.messages.rotation import RotationSpec
from paceline.messages.shared import Refusal
from paceline.messages.trainer import AskLease
from paceline.timing import ManualClock
from paceline.trainer.client.stopwatch import COMPUTE, OTHERS, Stopwatch
from paceline.trainer.protocol import StandingThen
from paceline.trainer.tables.rotation_prefetch import LookAhead

ROTATION = RotationSpec(table=0, parts=2, blocks=2, sizes=(1, 1, 1, 1), slices=2)


class SlowDriver:
    """Its coordinator answers 3 s after the trainer has begun to wait for it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stopwatch = Stopwatch(self.clock)
        self.waits = SimpleNamespace(showing=self._showing)
        self._waits = threading.Event()

    @contextmanager
    def _showing(self, _: Any) -> Iterator[None]:
        self._waits.set()
        yield

    def send(self, role: str, _: Any) -> str:
        return role

    def settle(self, _role: str, _: Any) -> Refusal:
        assert self._waits.wait(30.0)
        self.clock.advance(3.0)
        return Refusal(kind="invalid", text="no lease", timeline=1)


def test_waiting_for_the_next_block_is_waiting_for_others() -> None:
    driver = SlowDriver()
    unused = cast("Any", None)
    ahead = LookAhead(cast("Any", driver), unused, lambda _: np.arange(1), unused)
    driver.stopwatch.begin()
    driver.stopwatch.has_read()
    driver.clock.advance(1.0)

    ask = AskLease(incarnation=3, timeline=1, stage=0, is_ahead=True)
    ahead.begin(ask, StandingThen(incarnation=3, timeline=1), ROTATION)
    assert ahead.wait_found() is None
    ahead.close()

    spent = driver.stopwatch.spent()
    assert (spent[COMPUTE], spent[OTHERS]) == (1.0, 3.0)
