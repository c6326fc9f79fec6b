"""Evaluation and prediction, on the user's side: tasks are leased, read and worked off.

Waits: for the coordinator, the data set, and what the work waits for. The thread of the
user's script calls.
"""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, final

import torch
from torch import nn

from paceline.data.split import batch_positions
from paceline.errors import (
    IncompleteWarning,
    Preempted,
    UsageError,
    describe_error,
)
from paceline.failpoints import failpoint
from paceline.messages.results import MAX_RESULT_BYTES
from paceline.messages.shared import StageSpec
from paceline.trainer.engine import TrainerEngine
from paceline.trainer.loop import Stage, TaskReader, leaving_anyhow
from paceline.trainer.verdicts import Batch, Leaving, Over, Task

_log = logging.getLogger("paceline.trainer")


class Work(Protocol):
    """What is made of batches: results of tasks, and of those a value of the stage."""

    def begin(self) -> None:
        """Begin a task; what is left of one that was not finished is dropped."""

    def add(self, first_record: int, records: int, answer: object) -> None:
        """Take in what the user's step has returned for a batch of so many records."""

    def finish(self, task: Task) -> bytes:
        """The result of the task."""

    def value(self, results: Sequence[bytes], missing: int) -> bytes:
        """What results of all tasks but ``missing`` come to, in the order of the data."""

    def end(self, value: bytes) -> None:
        """The value is kept: do what is left to do, on every trainer, repeatably."""


@contextlib.contextmanager
def evaluating(models: Iterable[nn.Module]) -> Iterator[None]:
    """Put models into eval mode and record no gradients; afterwards all is as before."""
    shared = list(models)
    modes = {module: module.training for model in shared for module in model.modules()}
    try:
        for model in shared:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for model in shared:
            model.train(modes[model])  # some models do more there than to set the flag
        for module, mode in modes.items():
            module.training = mode


@final
class Evaluator:
    """One trainer's share of a stage that does not train."""

    def __init__(
        self, carrier: TrainerEngine, stage: Stage, step: Callable[[Any], Any], work: Work
    ) -> None:
        """Lease nothing yet; ``step``: batch -> what ``work`` takes in."""
        self._carrier, self._stage, self._spec = carrier, stage, stage.spec
        self._step, self._work = step, work
        self._acts = carrier.protocol.evaluation

    def run(self, num_workers: int) -> bytes:
        """Work tasks off until the stage is over for all; the value, the same for all.

        Raises:
            Preempted: the trainer was told to leave.
            UsageError: results are too large, or what the step returned is not right.
            JobFailed: there is no result at all, or the job as a whole cannot go on.
        """
        spec, carrier = self._spec, self._carrier
        reader = TaskReader(self._stage.source, spec, num_workers)
        try:
            carrier.run(carrier.protocol.begin_stage(spec))
            self._stage.begun()
            while not isinstance(found := carrier.run(self._acts.next_task(spec)), Over):
                if isinstance(found, Leaving):
                    raise Preempted(found.reason)
                self._run_task(found, reader)
        except BaseException:
            with leaving_anyhow("the evaluation was left without handing back"):
                carrier.run(self._acts.hand_back())
            raise
        finally:
            reader.close()
        return self._value()

    def _run_task(self, task: Task, reader: TaskReader) -> None:
        spec, work = self._spec, self._work
        work.begin()
        for batch in range(spec.num_batches(task.key.task)):
            leaving = self._carrier.protocol.leaving
            if leaving is not None:
                raise Preempted(leaving)
            try:
                data = reader.read(Batch(task.key, batch))
            except Exception as error:  # noqa: BLE001  (a user's data set may raise any)
                _log.exception("task %s cannot be read", task.key)
                self._carrier.run(self._acts.fail(describe_error(error)))
                return
            first, stop = batch_positions(spec, task.key.task, batch)
            work.add(first, stop - first, self._step(data))
            self._acts.evaluated += 1
            failpoint("trainer.evaluated_batch")
            if self._acts.is_void:
                return  # its values may be of another moment: the task is begun anew
        result = work.finish(task)
        _check_size(spec, result, "result of a task")
        failpoint("trainer.before_finish")
        self._carrier.run(self._acts.finish(result))
        failpoint("trainer.after_finish")

    def _value(self) -> bytes:
        stage = self._spec.stage
        found = self._carrier.run(self._acts.results(stage))
        if found.value is None:
            ordered = [result for _, result in sorted(found.states.items())]
            value = self._work.value(ordered, found.missing)
            _check_size(self._spec, value, "value")
            failpoint("trainer.before_value")
            found = self._carrier.run(self._acts.keep(stage, value))
        assert found.value is not None
        self._work.end(found.value)
        if found.missing:
            text = (
                f"{self._spec.kind}: {found.missing} of {self._spec.num_tasks()} tasks "
                "were given up, the rest is complete; RecordsMissing in events.jsonl lists "
                "their records"
            )
            warnings.warn(text, IncompleteWarning, stacklevel=4)
        return found.value


def _check_size(spec: StageSpec, data: bytes, what: str) -> None:
    if len(data) <= MAX_RESULT_BYTES:
        return
    if spec.kind == "predict":
        raise UsageError(
            f"predict: the list of files has {len(data):,} bytes, the limit is "
            f"{MAX_RESULT_BYTES:,}: each task writes one; set a larger task_size"
        )
    raise UsageError(
        f"{spec.kind}: the state is too large: the {what} has {len(data):,} bytes, the "
        f"limit is {MAX_RESULT_BYTES:,}: the metric's state grows with the records; bound "
        "it (torchmetrics' curves take thresholds=), or set a smaller task_size"
    )
