"""A few steps of one trainer under `torch.profiler`, with paceline's own parts by name.

::

    paceline::push    gradients are sent, and if nothing else is done, acknowledged
    paceline::pull    values are asked for, until they are there
    paceline::wait    for the coordinator, for other trainers, for what was sent before

Beside them lies all that torch tells. The first trainer that asks is the one; others go on
as if nothing was said. What is kept is bounded by the number of steps.

Waits: for the coordinator, which says who is the one; and for the disk. The thread of the
user's script calls.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import final

import torch
from torch._C._autograd import _profiler_enabled
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile, record_function

from paceline.errors import StoreError, UsageError
from paceline.messages.data import Push
from paceline.trainer.acts import Ask, Post, Wanted
from paceline.trainer.client import Driver
from paceline.trainer.seat import Seat
from paceline.trainer.share import SharedOptimizer

MOST_STEPS = 100
FOLDER = "traces"  # of the job folder

_log = logging.getLogger("paceline.trainer")


def span_of(wanted: Wanted | Post) -> AbstractContextManager[object]:
    """What torch calls the time that a question takes."""
    name = "paceline::wait"
    if isinstance(wanted, Ask | Post):
        role, message = next(iter(wanted.calls.items()), ("", None))
        if role.startswith("server-"):
            is_push = isinstance(message, Push)
            name = "paceline::push" if is_push else "paceline::pull"
    return record_function(name)


@final
class Profiles:
    """Profiles of this trainer, one at a time."""

    def __init__(self, seat: Seat, job_dir: Path) -> None:
        """Nothing is profiled; traces go below ``job_dir``."""
        self._seat, self._folder = seat, job_dir / FOLDER
        self._runs = False

    @contextmanager
    def profile(self, steps: int = 5) -> Iterator[None]:
        """Profile the first steps that one trainer takes while the ``with`` block runs.

        The trace is written when so many are done, or at the block's end, to
        ``traces/<trainer>.pt.trace.json`` in the job folder (of this machine; one that was
        there is replaced), and the trainer says where; open it in ui.perfetto.dev. Other
        trainers go on as without it. A step is one of the first optimizer that steps.

        Args:
            steps: at most `MOST_STEPS`.

        Raises:
            UsageError: ``steps`` is out of range; a profiler runs in this trainer already;
                or a trainer of several processes.
            StoreError: the block ends before so many steps, and the trace cannot be
                written; where the steps are done, that is said in the log alone.
        """
        driver = self._seat.alone("profile").membership.driver
        if isinstance(steps, bool) or not 1 <= steps <= MOST_STEPS:
            raise UsageError(f"profile: expected 1 to {MOST_STEPS} steps, got {steps!r}")
        if self._runs or _profiler_enabled():
            raise UsageError(
                "profile: a profiler runs in this trainer already; leave its with block "
                "before another begins"
            )
        if not self._seat.once("paceline.profile"):
            yield
            return
        self._runs = True
        taking = _Taking(
            driver, steps, self._folder / f"{self._seat.trainer}.pt.trace.json"
        )
        try:
            with taking.counted():
                yield
        finally:
            self._runs = False


@final
class _Taking:
    """A profile that is being taken."""

    def __init__(self, driver: Driver, steps: int, path: Path) -> None:
        self._driver, self._left, self._path = driver, steps, path
        self._steps = 0
        self._counted: object = None  # the optimizer whose steps are counted
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profiler: profile | None = profile(activities=activities)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Profile until enough steps are done, or the block ends."""
        assert self._profiler is not None
        before, self._driver.span = self._driver.span, span_of
        hook = register_optimizer_step_post_hook(self._note_step)
        self._profiler.start()
        try:
            yield
        finally:
            hook.remove()
            self._driver.span = before
            self._end()

    def _note_step(self, optimizer: object, *_: object) -> None:
        if not isinstance(optimizer, SharedOptimizer):
            return
        if self._counted is None:
            self._counted = optimizer
        if optimizer is self._counted and self._profiler is not None:
            self._steps += 1
            if self._steps >= self._left:
                try:
                    self._end()
                except StoreError as error:  # the step is done, and training goes on
                    _log.warning("%s", error)

    def _end(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        profiler.stop()
        self._counted = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)  # never through somebody's link
            profiler.export_chrome_trace(str(self._path))
        except (OSError, RuntimeError) as error:
            raise StoreError(f"profile: cannot write {self._path}: {error}") from error
        _log.warning("a profile of %d steps is in %s", self._steps, self._path)
