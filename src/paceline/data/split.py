"""How an epoch is cut: positions into tasks, tasks into batches.

::

    positions  0 ........ task_size ........ 2 * task_size ........ records
    tasks      |--------- 0 -------|--------- 1 ---------|--- 2 ---|
    batches    | 0 | 1 | 2 |   ... | 0 | 1 |         ... | 0 | 1 |.|

Where the cuts lie follows from the sizes alone, never from how many trainers there are,
so that a batch has the same records whoever computes it, and however often.

Pure; any role may call it. It does not import torch: the coordinator cuts tasks too.
"""

from paceline.errors import UsageError
from paceline.messages.shared import StageSpec

_MAX_BATCHES_PER_TASK = 64
_TASKS_PER_EPOCH = 64
_INT64_MAX = (1 << 63) - 1


def default_task_size(records: int, batch_size: int) -> int:
    """Positions of a task, when the user does not say.

    ``batch_size x clamp(batches // 64, 1, 64)``: an epoch has about 64 tasks, or more,
    and a task at most 64 batches.

    Raises:
        UsageError: ``batch_size`` is not a whole number >= 1.
    """
    _check_batch_size(batch_size)
    batches = -(-records // batch_size)
    return batch_size * min(max(batches // _TASKS_PER_EPOCH, 1), _MAX_BATCHES_PER_TASK)


def batch_positions(spec: StageSpec, task: int, batch: int) -> tuple[int, int]:
    """The positions ``start, stop`` (half open) of a batch of a task.

    The last batch of the last task may be short; no batch is empty.
    """
    assert 0 <= task < spec.num_tasks(), (task, spec.num_tasks())
    assert 0 <= batch < spec.num_batches(task), (batch, spec.num_batches(task))
    start = task * spec.task_size + batch * spec.batch_size
    return start, start + spec.batch_records(task, batch, batch)


def task_positions(spec: StageSpec, task: int) -> tuple[int, int]:
    """The positions ``start, stop`` (half open) of a task."""
    assert 0 <= task < spec.num_tasks(), (task, spec.num_tasks())
    start = task * spec.task_size
    return start, start + spec.task_records(task)


def check_stage(spec: StageSpec) -> None:
    """Refuse a stage that cannot be cut.

    Raises:
        UsageError: a size, the number of epochs or the seed is out of range, or the data
            set is empty; the message names the argument of `Session.batches`.
    """
    _check_batch_size(spec.batch_size)
    _check_whole("epochs", spec.epochs, 1)
    _check_whole("task_size", spec.task_size, 1)
    _check_whole("seed", spec.seed, -_INT64_MAX)
    if spec.records < 1:
        raise UsageError(
            f"batches: the data set has {spec.records} records; expected at least one"
        )
    if spec.task_size % spec.batch_size:
        down = spec.task_size // spec.batch_size * spec.batch_size
        raise UsageError(
            f"batches: task_size must be a multiple of batch_size, got {spec.task_size} "
            f"and {spec.batch_size}; try {down or spec.batch_size}"
        )


def _check_batch_size(value: object) -> None:
    if value == 0 and value is not False:
        raise UsageError(
            "batches: batch_size is missing, or 0: say how many records a batch has, "
            "as in session.batches(dataset, batch_size=64)"
        )
    _check_whole("batch_size", value, 1)


def _check_whole(name: str, value: object, least: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= _INT64_MAX:  # type: ignore[operator]  # an int
        raise UsageError(
            f"batches: {name} must be a whole number >= {least}, got {value!r}"
        )
