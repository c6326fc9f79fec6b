"""What a stop leaves to do: nothing of training, everything of evaluation.

A script that has stopped goes on through its loops, which are over at once, to its
evaluations, which run. The job comes along: from a loop that nobody has begun it jumps to
the next stage that is no training, over all loops between.

Pure.
"""

from paceline.coordinator.durable.durable import Durable


def is_touched(state: Durable) -> bool:
    """Whether any task of the current stage was ever leased."""
    return state.queue.next_fresh > 0 or state.queue.epoch > 0


def has_nothing_to_train(state: Durable) -> bool:
    """Whether the job was stopped, and its current stage is training."""
    spec = state.stage_spec()
    return state.stopped is not None and spec is not None and spec.is_training


def open_stage(state: Durable, stage: int) -> int:
    """The first stage from ``stage`` on that is not over by a stop.

    That is ``stage`` itself, unless the job was stopped and a trainer has told of an
    evaluation behind it: whoever tells of a stage has told of all before.
    """
    if state.stopped is None:
        return stage
    known = (n for n, spec in state.stages.items() if n >= stage and not spec.is_training)
    return min(known, default=stage)


def is_stopped_before(state: Durable, stage: int) -> bool:
    """Whether ``stage`` is a loop that is over before it has begun.

    While the current stage still has something to do, later ones wait for it.
    """
    spec, current = state.stages.get(stage), state.stage_spec()
    if state.stopped is None or (spec is not None and not spec.is_training):
        return False
    evaluates = current is not None and not current.is_training
    return stage >= state.queue.stage and not evaluates and not is_touched(state)
