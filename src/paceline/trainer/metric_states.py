"""A metric as states of tasks: made one by one, sent as bytes, computed together.

The states are joined as torchmetrics joins those of processes: what a metric gathers from
all processes when it is computed, it is given for all tasks here, in the order of the data.
So every metric that torchmetrics can synchronize will do, with its own rule for each state
(sum, mean, max, concatenation, one of its own). torchmetrics itself is not imported.

::

    reset, update with a task's batches -> state: {name of a module: {name: its values}}
    lists of values  one behind the other: as if one process had seen all data
    single values    stacked, then the metric's own reduction

Waits for nothing. The thread of the user's loop calls.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import torch

from paceline.errors import JobFailed, UsageError
from paceline.trainer.encoding import decode_state, encode_state
from paceline.trainer.verdicts import Task

State = dict[str, dict[str, Any]]  # {module of the metric: {state: tensor or list}}


@runtime_checkable
class Metric(Protocol):
    """What is used of a `torchmetrics.Metric` or `MetricCollection`."""

    def update(self, *args: Any) -> None:  # noqa: ANN401  (as the metric takes them)
        """Take a batch in."""

    def compute(self) -> Any:  # noqa: ANN401  (as the metric returns it)
        """The value of all that was taken in."""

    def reset(self) -> None:
        """Forget all that was taken in."""

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """The metric and what it is made of."""


@final
class MetricStates:
    """A metric over all records, a `Work`; the user's own stays as it is."""

    def __init__(self, metric: object) -> None:
        """Copy a metric.

        Raises:
            UsageError: it is no metric of torchmetrics, or one that gathers nothing.
        """
        if not isinstance(metric, Metric):
            raise UsageError(
                "evaluate: expected a torchmetrics.Metric or MetricCollection, got "
                f"{type(metric).__name__}"
            )
        self._metric = copy.deepcopy(metric)
        self._metric.reset()
        parts = dict(_parts(self._metric))
        if not parts:
            raise UsageError(
                f"evaluate: {type(metric).__name__} has no state of torchmetrics: "
                "expected one made with Metric.add_state"
            )
        for name, part in parts.items():
            if not part.sync_on_compute:
                raise UsageError(
                    f"evaluate: {name or type(part).__name__} was made with "
                    "sync_on_compute=False; states of tasks are joined as those of "
                    "processes are: leave it out"
                )

    def begin(self) -> None:
        """Begin a task."""
        self._metric.reset()

    def add(self, first_record: int, records: int, answer: object) -> None:
        """Take a batch in: a tuple of the arguments of `update`, or the only one."""
        del first_record, records
        arguments = answer if isinstance(answer, tuple) else (answer,)
        self._metric.update(*arguments)

    def finish(self, task: Task) -> bytes:
        """The state of the task.

        Raises:
            UsageError: it holds what cannot be sent.
        """
        del task
        states = {name: dict(part.metric_state) for name, part in _parts(self._metric)}
        return encode_state(states, "state of the metric", "evaluate")

    def value(self, results: Sequence[bytes], missing: int) -> bytes:
        """The value of the states of tasks, in the order of the data; on the CPU.

        Raises:
            JobFailed: all tasks are missing.
        """
        if not results:
            raise JobFailed(
                f"evaluate: all {missing} tasks were given up, nothing was evaluated; the "
                "log says why"
            )
        tasks: list[State] = [decode_state(data) for data in results]
        metric: Any = copy.deepcopy(self._metric)
        metric.reset()
        metric.cpu()
        gathered: dict[int, list[torch.Tensor]] = {}  # {id of a value: that of each task}
        for name, part in _parts(metric):
            is_gathered = False
            for key in part.metric_state:
                values = [task[name][key] for task in tasks]
                if isinstance(values[0], torch.Tensor):
                    is_gathered = True
                    gathered[id(values[0])] = values
                    setattr(part, key, values[0])
                else:
                    setattr(part, key, [item for value in values for item in value])
            _let_gather(part, gathered, is_gathered=is_gathered)
        for _, module in metric.named_modules():
            if hasattr(module, "update_called"):
                # There is no public way to say that a state did not come from nowhere.
                module._update_count = len(tasks)
        return encode_state(metric.compute(), "value of the metric", "evaluate")

    def end(self, value: bytes) -> None:
        """Nothing is left to do."""

    @staticmethod
    def decode(value: bytes) -> Any:  # noqa: ANN401  (as the metric computes it)
        """The value again."""
        return decode_state(value)


def _parts(metric: Metric) -> list[tuple[str, Any]]:
    """The modules of a metric that have states, by name."""
    modules = dict(metric.named_modules())
    for module in modules.values():
        if hasattr(module, "compute_groups"):
            module.values(copy_state=False)  # all of a group see what one was updated with
    return [
        (name, module)
        for name, module in modules.items()
        if hasattr(module, "dist_sync_fn") and module.metric_state
    ]


def _let_gather(
    part: Any,  # noqa: ANN401  (a metric)
    gathered: Mapping[int, list[torch.Tensor]],
    *,
    is_gathered: bool,
) -> None:
    """Let a metric find the values of all tasks where it asks for those of processes."""

    def gather(value: torch.Tensor, group: object = None) -> list[torch.Tensor]:
        del group  # of processes, of which there is only this one
        return gathered.get(id(value), [value])

    part.dist_sync_fn = gather
    part.distributed_available_fn = lambda: is_gathered
