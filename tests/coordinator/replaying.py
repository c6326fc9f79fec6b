"""What must hold of a coordinator between any two events, and its journal read again."""

from collections.abc import Iterable

from paceline.coordinator.durable import Durable, Queue, restore
from paceline.coordinator.durable.outcomes import AnyOutcome
from paceline.messages.rotation import RotationSpec


def restored(outcomes: Iterable[AnyOutcome]) -> Durable:
    """The durable state after ``outcomes``."""
    state = Durable()
    for outcome in outcomes:
        restore(outcome, state)
    return state


def validate(state: Durable) -> None:
    """Assert that no task is lost or held twice, and that holders are members."""
    queue = state.queue
    live = set(state.trainers.values())
    for task, record in queue.pending.items():
        assert record.incarnation in live, f"task {task} is held by the dead"
        assert record.lease.key.task == task
    settling = [key.task for keys in state.settling.values() for key in keys]
    places = [*queue.pending, *queue.returned, *settling]
    assert len(places) == len(set(places)), f"a task lies in two places: {places}"
    for task in places:
        assert not queue.is_done(task), f"task {task} is done and open"
        assert task < queue.next_fresh
    assert set(places) == queue.open, f"open are {queue.open}, known {places}"
    spec = state.stage_spec()
    if spec is not None and spec.rotation is not None:
        _validate_cells(spec.rotation, queue)


def _validate_cells(rotation: RotationSpec, queue: Queue) -> None:
    """Assert that no two cells of one block are leased, nor a data part to two trainers."""
    blocks: dict[int, int] = {}  # {block: its cell}
    parts: dict[int, int] = {}  # {data part: incarnation}
    for task, record in queue.pending.items():
        part, block = rotation.cell_of(task)
        assert blocks.setdefault(block, task) == task, f"block {block} is with two"
        holder = parts.setdefault(part, record.incarnation)
        assert holder == record.incarnation, f"data part {part} is with two"
