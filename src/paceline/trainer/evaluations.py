"""Metrics and predictions of a session: by all trainers together, each record once.

Waits: for coordinator and servers, and the data set. The thread of the user's script calls.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, final

from torch import nn

from paceline.trainer.evaluator import Work
from paceline.trainer.loop import Cutting, Stage, Stages
from paceline.trainer.metric_states import Metric, MetricStates
from paceline.trainer.predictions import open_predictions
from paceline.trainer.seat import Seat

_BETWEEN = "end the loop first; to evaluate now and then, make a loop of each epoch"


@final
class Evaluations:
    """The calls of one session that look at models and change nothing."""

    def __init__(self, seat: Seat, stages: Stages, models: Sequence[nn.Module]) -> None:
        """``models``: those that are shared by then."""
        self._seat, self._calls = seat, seat.membership.calls
        self._stages, self._models = stages, models

    def evaluate(
        self,
        metric: Metric,
        step: Callable[[Any], Any],
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        *,
        batch_size: int = 512,
        task_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
    ) -> Any:  # noqa: ANN401  (as the metric computes it)
        """A metric over a whole data set, worked out by all trainers together.

        Every trainer makes this call at the same place of its script, and every one is
        returned the same value, to the bit. Each record counts once, whoever dies: states
        of the metric are made task by task, and counted with the end of the task. All
        tasks see the values of one moment: the cut that ended the loop before.

        Shared models are in eval mode (unseen ids make no row), gradients are not
        recorded; both are as before afterwards. Tracked objects are, on every trainer,
        those of that cut; ``metric`` stays as it is. If tasks were given up, the value is
        of the others, with an `IncompleteWarning`.

        ``metric`` is a `torchmetrics.Metric` or `MetricCollection`; ``step`` makes of a
        batch the arguments of its ``update``: a tuple, or the only one. The data set is
        read in its order; the rest is as for `batches`.

        Returns:
            What ``metric.compute()`` returns; its tensors are on the CPU.

        Raises:
            UsageError: inside a loop; an argument is wrong; or the state is too large.
            JobFailed: all tasks were given up, or the job cannot go on.
        """
        cutting = Cutting(batch_size, 1, False, 0, task_size, collate_fn, workers)
        self._calls.check_idle("evaluate", _BETWEEN)
        work = MetricStates(metric)
        planned = self._stages.plan("evaluate", dataset, cutting)
        return work.decode(self._run(planned, step, work, workers))

    def predict(
        self,
        step: Callable[[Any], Any],
        dataset: Any,  # noqa: ANN401  (whatever a user calls a data set)
        writer: str | os.PathLike[str] | Callable[[int, Any], object],
        *,
        batch_size: int = 512,
        task_size: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        workers: int = 0,
    ) -> None:
        """Predictions for a whole data set, by all trainers together, as in `evaluate`.

        A folder gets a file in safetensors for each task, and at last ``predictions.json``,
        which lists the files that count, in the order of the data: each record is in them
        exactly once. A function is called for each batch, and again for those of a task
        that is begun anew: write by key.

        ``step`` makes of a batch a tensor or an array, or dictionaries and tuples of them,
        with one entry for each record. ``writer`` is the path or fsspec URL of a folder for
        this call alone, or ``writer(first_record, predictions)``. A file has the
        predictions of a task; the data set is read in its order, and the rest is as for
        `batches`.

        Raises:
            UsageError: inside a loop; an argument is wrong; the folder holds predictions
                already; or those of a batch have not one entry for each record.
            StoreError: the folder cannot be written.
            JobFailed: the job as a whole cannot go on.
        """
        cutting = Cutting(batch_size, 1, False, 0, task_size, collate_fn, workers)
        self._calls.check_idle("predict", _BETWEEN)
        work = open_predictions(writer)
        planned = self._stages.plan("predict", dataset, cutting)
        self._run(planned, step, work, workers)

    def _run(
        self, planned: Stage, step: Callable[[Any], Any], work: Work, workers: int
    ) -> bytes:
        models = self._models
        return self._stages.call(
            planned, lambda stage: self._seat.evaluate(stage, step, work, models, workers)
        )
