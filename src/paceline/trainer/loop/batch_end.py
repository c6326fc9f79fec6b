"""What ends with a batch: steps of tables, of several ones together or not at all.

Waits: for servers and coordinator, as a step does. The thread of the user's script calls.
"""

from collections.abc import Mapping

from paceline.errors import UsageError
from paceline.trainer.engine import TrainerEngine
from paceline.trainer.holdings import SharedPart, Writing
from paceline.trainer.verdicts import Stepped


def end_batch(carrier: TrainerEngine) -> None:
    """The user is done with a batch: what it has pushed to tables leaves.

    Raises:
        UsageError: a model whose gradients travel between trainers was not stepped.
    """
    for part, numbers in carrier.numbers.items():
        # Its gradients would be in no round, and its batch would count.
        model = "" if numbers.table is None else numbers.table.must_step
        if model and carrier.protocol.parts[part].window.has_delivered():
            raise UsageError(
                f"{model}: with allreduce every batch has its step(), and one "
                f"has ended without: accumulate gradients by larger batches"
            )
    step_atomic(carrier)
    for part, numbers in carrier.numbers.items():
        if numbers.table is not None and has_batch(carrier.protocol.parts[part]):
            carrier.step(part)


def step_atomic(carrier: TrainerEngine) -> None:
    """What all atomic tables have of a batch leaves, as one."""
    parts = carrier.protocol.parts
    tables = {part: numbers.table for part, numbers in carrier.numbers.items()}
    atomic = [part for part, table in tables.items() if table and table.is_atomic]
    whole = [part for part in atomic if has_batch(parts[part])]
    if whole:
        step_whole(carrier, {part: {} for part in whole})


def has_batch(part: SharedPart) -> bool:
    """Whether the script is in a batch of a part, be it one that is gone.

    The trainer may have joined again since, by any question of the script's: what that
    batch pushes goes nowhere, as a step of it does.
    """
    return part.window.has_delivered() or bool(part.forgotten)


def step_whole(carrier: TrainerEngine, tokens: Mapping[int, Mapping[str, int]]) -> Stepped:
    """The batch in the user's hands is over for these tables: what was written leaves.

    It is there on all servers, for all of them, or nowhere, whoever dies. ``tokens``:
    {part: {server: token of the lock that its rows are written under}}; without locks,
    nothing for a part.

    Returns:
        What became of the step; ``dropped`` if the batch is gone.

    Raises:
        Refused: a lock was lost (``lock_lost``); nothing was written, and the batch is in
            the user's hands as before.
    """
    protocol = carrier.protocol
    *beside, last = tokens
    for part in tokens:
        protocol.parts[part].writing = Writing(tokens[part], ())
    protocol.parts[last].writing = Writing(tokens[last], tuple(beside))
    try:
        if not protocol.must_join:
            for part in beside:
                numbers = carrier.numbers[part]
                numbers.load(carrier.plan(part), with_step=True)
                protocol.parts[part].refused = numbers.refusal
        return carrier.step(last)
    finally:
        for part in tokens:
            protocol.parts[part].writing = None
            carrier.numbers[part].clear()
