"""MLflow: a run in an experiment, in whatever store the tracking URI names.

Steps are records, timestamps those of events, so that a number that is written again is the
same row: a store in a database (SQLite is MLflow's own default) drops it, and nothing is
doubled or lost, whoever is killed. MLflow's old store of plain files, and servers that have
one, may hold the last second before a kill twice.

MLflow has no text over time: what has happened stands in the run's description, the last
`MOST_LINES` of it.

Waits: for the store, with MLflow's own bounds and retries.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, final

from paceline.errors import StoreError, UsageError
from paceline.trackers.points import Happening, Told
from paceline.trackers.tracker import Kept, RunEnd, TrackedRun, name_of

EXPERIMENT = "paceline"  # unless MLFLOW_EXPERIMENT_NAME says another
MOST_AT_ONCE = 1000  # numbers that MLflow takes in one call
MOST_LINES = 100  # of a description
DESCRIPTION = "mlflow.note.content"  # MLflow's page shows this tag as text
_STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED"}
_REFUSED = re.compile(r"[^\w\-. /:]")  # in names of numbers, by MLflow


@final
class MlflowStore:
    """A run of MLflow's; a `RunTracker`."""

    def __init__(self, uri: str | None) -> None:
        """``uri`` as MLflow has them; None: what MLFLOW_TRACKING_URI says, or MLflow.

        Raises:
            UsageError: ``paceline[mlflow]`` is not installed, or MLflow has no such URI.
        """
        try:
            from mlflow import entities, exceptions  # noqa: PLC0415  (an extra)
            from mlflow.tracking import MlflowClient  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"MLflow needs {error.name}: pip install 'paceline[mlflow]'"
            ) from error
        self._entities: Any = entities  # Any: an extra, which need not be there
        self._wrong = (exceptions.MlflowException, OSError)
        with self._translated():
            self._client: Any = MlflowClient(uri)
        self._run: TrackedRun | None = None
        self._id = ""
        self._lines: list[str] = []  # of the description
        self._has_new_lines = False

    def begin(self, run: TrackedRun, kept: Kept | None) -> bool:
        """See `RunTracker`."""
        self._run = run
        with self._translated():
            if kept is not None and self._finds(str(kept["run"])):
                return True
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
            known = self._client.get_experiment_by_name(name)
            experiment = (
                self._client.create_experiment(name)
                if known is None
                else known.experiment_id
            )
            made = self._client.create_run(experiment, run_name=run.name)
            self._id = made.info.run_id
            params = [
                self._entities.Param(name, str(value))
                for name, value in run.parameters.items()
            ]
            tags = [self._entities.RunTag("paceline.job", run.job)]
            self._client.log_batch(self._id, params=params, tags=tags)
        return False

    def write(self, told: Sequence[Told]) -> None:
        """See `RunTracker`."""
        assert self._run is not None
        metrics = []
        for point in (point for points in told for point in points):
            if isinstance(point, Happening):
                self._note(point)
                continue
            name = _REFUSED.sub("_", name_of(point, by_trainer=self._run.by_trainer))
            at_ms = round(1e3 * point.t)
            metrics.append(self._entities.Metric(name, point.value, at_ms, point.records))
        with self._translated():
            for first in range(0, len(metrics), MOST_AT_ONCE):
                self._client.log_batch(self._id, metrics[first : first + MOST_AT_ONCE])
            if self._has_new_lines:
                text = "\n".join(self._lines)
                self._client.set_tag(self._id, DESCRIPTION, text)
                self._has_new_lines = False

    def settle(self) -> Kept:
        """See `RunTracker`; MLflow's calls return when it is done."""
        return {"run": self._id}

    def end(self, end: RunEnd) -> None:
        """See `RunTracker`."""
        with self._translated():
            told = {"status": end.status, "reason": end.reason, **end.numbers}
            for name, value in told.items():
                self._client.set_tag(self._id, f"paceline.{name}", str(value))
            self._client.set_terminated(self._id, _STATUS.get(end.status, "FAILED"))

    def close(self) -> None:
        """Nothing is open."""

    def _finds(self, run_id: str) -> bool:
        """Whether a run is there yet; it is one that runs, then."""
        try:
            run = self._client.get_run(run_id)
        except self._wrong[0] as error:
            if getattr(error, "error_code", "") != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False
        if run.info.lifecycle_stage != "active":
            return False
        self._id = run_id
        self._lines = run.data.tags.get(DESCRIPTION, "").splitlines()
        self._client.update_run(run_id, status="RUNNING")
        return True

    def _note(self, happening: Happening) -> None:
        moment = datetime.fromtimestamp(happening.t, tz=UTC)
        text = " ".join(happening.text.split())
        line = f"- {moment:%Y-%m-%d %H:%M:%S.%f} ({happening.records:,} records) {text}"
        if line not in self._lines:  # it was written before a kill
            self._lines = [*self._lines, line][-MOST_LINES:]
            self._has_new_lines = True

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._wrong as error:
            raise StoreError(f"MLflow: {error}") from error
