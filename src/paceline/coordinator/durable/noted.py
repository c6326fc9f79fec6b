"""How the queue takes down what tasks and stages came to.

Pure.
"""

from paceline.coordinator.durable.outcomes import StageValued, TaskDone
from paceline.coordinator.durable.queue import Queue, StageResults


def note_result(queue: Queue, outcome: TaskDone) -> None:
    """A task has a result: here, or beside the cuts."""
    results = queue.results.setdefault(outcome.key.stage, StageResults())
    if outcome.kept is not None:
        results.kept_states[outcome.key.task] = outcome.kept
    elif outcome.result is not None:
        results.states[outcome.key.task] = outcome.result


def note_value(queue: Queue, outcome: StageValued) -> None:
    """A stage has a value, which takes the place of the results of its tasks."""
    value = outcome.value if outcome.kept is None else None
    queue.results[outcome.stage] = StageResults(
        value=value, missing=outcome.missing, kept=outcome.kept
    )
