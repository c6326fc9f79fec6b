"""Weights & Biases, and trackio, which has the same calls: a run of a project.

What one event says is one row, and rows are counted: the n-th of a job is step n, with
``records`` beside its numbers, which is what curves are drawn over. Whoever goes on asks
the tool how many rows it has (a trackio database and an online W&B run know) and begins
behind them, so that nothing is doubled or lost. W&B offline knows nothing: each time it
makes another folder of the same run for ``wandb sync``, with all rows from the first on.

Waits: for the tool, with its own bounds; what is sent over a network, it sends by itself.
"""

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, final

from paceline.errors import StoreError, UsageError
from paceline.trackers.points import OWN, Happening, Told
from paceline.trackers.tracker import Kept, RunEnd, TrackedRun, name_of

PROJECT = "paceline"
_SHORT = 6  # digits of a job's id that tell runs of one name apart


@final
class WandbRun:
    """A run of W&B's or trackio's; a `RunTracker`."""

    def __init__(self, tool: str, project: str) -> None:
        """``tool`` is ``wandb`` or ``trackio``.

        Raises:
            UsageError: ``paceline[wandb]`` or ``paceline[trackio]`` is not installed.
        """
        self._is_wandb = tool == "wandb"
        self._tool, self._project = tool, project
        self._module = _imported(tool)
        self._run: TrackedRun | None = None
        self._open: Any = None  # Any: the run of an extra, which need not be there
        self._rows = 0  # of the job that were written, or need not be
        self._there = 0  # so many the tool has already
        self._status = 0  # an exit code, once the job is over

    def begin(self, run: TrackedRun, kept: Kept | None) -> bool:
        """See `RunTracker`."""
        self._run = run
        with self._translated():
            (self._open_wandb if self._is_wandb else self._open_trackio)(run)
            self._there = int(
                self._open.step if self._is_wandb else getattr(self._open, "_next_step", 0)
            )
        marked = -1 if kept is None else int(kept["rows"])
        # W&B offline writes late, and says nothing of what a killed process had written.
        is_asked = not (self._is_wandb and self._open.offline)
        goes_on = is_asked and 0 <= marked <= self._there
        self._rows = marked if goes_on else 0
        return goes_on

    def write(self, told: Sequence[Told]) -> None:
        """See `RunTracker`."""
        assert self._run is not None
        with self._translated():
            for points in told:
                if self._rows >= self._there:
                    self._log(self._row(self._run, points))
                self._rows += 1

    def _log(self, row: dict[str, float | str]) -> None:
        if self._is_wandb:  # else it holds a row back until the next one
            self._open.log(row, step=self._rows, commit=True)
        else:
            self._open.log(row, step=self._rows)

    def settle(self) -> Kept:
        """How many rows are handed to the tool, which keeps them within a second."""
        return {"rows": self._rows}

    def end(self, end: RunEnd) -> None:
        """See `RunTracker`."""
        self._status = 0 if end.status in {"finished", "stopped"} else 1
        if self._is_wandb:
            told = {"status": end.status, "reason": end.reason, **end.numbers}
            with self._translated():
                for name, value in told.items():
                    self._open.summary[OWN + name] = value

    def close(self) -> None:
        """See `RunTracker`; waits until the tool has all."""
        if self._open is None:
            return
        with self._translated():
            if self._is_wandb:
                self._open.finish(exit_code=self._status)
            else:
                self._open.finish()
        self._open = None

    def _open_wandb(self, run: TrackedRun) -> None:
        settings = self._module.Settings(
            console="off", x_disable_stats=True, disable_git=True, disable_code=True
        )
        self._open = self._module.init(
            project=self._project,
            id=run.job,
            name=run.name,
            resume="allow",
            config=run.parameters,
            settings=settings,
        )
        self._open.define_metric("*", step_metric="records")

    def _open_trackio(self, run: TrackedRun) -> None:
        self._open = self._module.init(
            project=self._project,
            name=f"{run.name}-{run.job[:_SHORT]}",
            resume="allow",
            config=run.parameters,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def _row(self, run: TrackedRun, points: Told) -> dict[str, float | str]:
        first = points[0]
        row: dict[str, float | str] = {"records": first.records}
        row["_timestamp" if self._is_wandb else OWN + "t"] = first.t
        for point in points:
            if isinstance(point, Happening):
                row[OWN + "happened"] = point.text
            else:
                row[name_of(point, by_trainer=run.by_trainer)] = point.value
        return row

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the tools have no root of errors
            raise StoreError(f"{self._tool}: {error}") from error


def _imported(tool: str) -> ModuleType:
    try:
        return importlib.import_module(tool)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{tool} needs {error.name}: pip install 'paceline[{tool}]'"
        ) from error
