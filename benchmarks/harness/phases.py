"""Where time goes: a stopwatch for a loop, and a clock at the seams of a trainer.

A phase's time is its own: what runs inside another phase counts there. The phases are the
seams of the trainer: the benchmark wraps them in one run that is not timed otherwise, since
looking costs a few microseconds a call.
"""

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, final

import msgspec
import psutil

from paceline.trainer.client.driver import Driver
from paceline.trainer.engine.engine import TrainerEngine
from paceline.trainer.loop.loop import TaskReader
from paceline.trainer.rows.routing import Router
from paceline.trainer.tensors import ModelTensors

T = TypeVar("T")

MESSAGES = {  # {last message that is asked: what the asking is for}
    "PullRows": "rows",
    "Push": "push",
    "Tick": "tick",
    "Pull": "pull",
}


@final
class PhaseClock:
    """Adds up the time of phases, each without what runs inside it. One thread counts."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        """Count nothing yet."""
        self._now_s = now_s
        self._thread = threading.get_ident()
        self._open: list[str] = []
        self._since_s = now_s()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What runs inside is of this phase."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def restart(self) -> None:
        """Forget what was counted; open phases stay open."""
        self._turn()
        self._seconds.clear()

    def seconds(self) -> dict[str, float]:
        """{phase: seconds}, the longest first."""
        self._turn()
        return dict(sorted(self._seconds.items(), key=lambda item: -item[1]))

    @contextmanager
    def wrapped(
        self,
        owner: Any,  # noqa: ANN401  (a class or a module)
        name: str,
        phase: str | Callable[..., str],
    ) -> Iterator[None]:
        """Count a function's calls as a phase; a callable names it from the arguments."""
        function = getattr(owner, name)

        def counted(*arguments: object, **named: object) -> object:
            with self.phase(phase if isinstance(phase, str) else phase(*arguments)):
                return function(*arguments, **named)

        setattr(owner, name, counted)
        try:
            yield
        finally:
            setattr(owner, name, function)

    def _turn(self) -> None:
        now = self._now_s()
        self._seconds[self._open[-1] if self._open else "the rest"] += now - self._since_s
        self._since_s = now


class Stopwatch:
    """Times the steps behind the warm ones, and what the other processes of a job spend."""

    def __init__(
        self,
        warm: int,
        timed: int,
        clock: PhaseClock | None = None,
        count: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self.seconds = 0.0
        self.counted: dict[str, int] = {}  # {what: of the timed steps}, if it is counted
        self.cpu_ms: dict[str, float] = {}  # {process: of its processors, per step}
        self.phases: dict[str, float] = {}  # {phase: seconds}, if there is a clock
        self._warm, self._timed = warm, timed
        self._clock, self._count = clock, count
        self._processes = _siblings()

    def watch(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches; the time runs until the last one's step is over."""
        began_s = 0.0
        began_cpu_s: dict[str, float] = {}
        began: Mapping[str, int] = {}
        for number, batch in enumerate(batches):
            if number == self._warm:
                began_cpu_s = self._cpu_s()
                if self._clock is not None:
                    self._clock.restart()
                began, began_s = self._count(), time.perf_counter()
            yield batch
            if number == self._warm + self._timed - 1:
                self.seconds = time.perf_counter() - began_s
                self.counted = {what: n - began[what] for what, n in self._count().items()}
                self.phases = {} if self._clock is None else self._clock.seconds()
                self.cpu_ms = {
                    name: 1000 * (now - began_cpu_s[name]) / self._timed
                    for name, now in self._cpu_s().items()
                }

    def _cpu_s(self) -> dict[str, float]:
        spent = {name: p.cpu_times() for name, p in self._processes.items()}
        return {name: times.user + times.system for name, times in spent.items()}


def phase(clock: PhaseClock | None, name: str) -> contextlib.AbstractContextManager[None]:
    """A phase if there is a clock."""
    return contextlib.nullcontext() if clock is None else clock.phase(name)


def _siblings() -> dict[str, psutil.Process]:
    """{name: process} of this job's processes, by the fork server that made them."""
    me = psutil.Process()
    if "PACELINE_ROLE" not in os.environ:
        return {"trainer": me}
    children = me.parent().children()
    return {child.name(): child for child in children}


@contextmanager
def watched_trainer(clock: PhaseClock) -> Iterator[None]:
    """Count the trainer's seams meanwhile."""

    def asked(calls: dict[str, msgspec.Struct]) -> str:
        [*_, message] = calls.values()
        return MESSAGES.get(type(message).__name__, "other questions")

    def sent(_: Driver, calls: dict[str, msgspec.Struct], *__: object) -> str:
        return f"{asked(calls)}: send"

    def gathered(_: Driver, sending: Any) -> str:  # noqa: ANN401  (the driver's own)
        return f"{asked(sending.calls)}: wait for the reply"

    seams: tuple[tuple[Any, str, str | Callable[..., str]], ...] = (
        (Driver, "_send", sent),
        (Driver, "_gather", gathered),
        (TaskReader, "read", "data: read"),
        (Router, "route", "rows: distinct ids, by server and slot"),
        (ModelTensors, "load", "step: gradients made ready"),
        (TrainerEngine, "step", "step: bookkeeping"),
    )
    with ExitStack() as stack:
        for owner, name, phase in seams:
            stack.enter_context(clock.wrapped(owner, name, phase))
        yield
