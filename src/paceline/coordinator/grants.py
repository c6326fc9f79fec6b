"""Granting leases, and closing tasks whose batches are all acknowledged.

A lease is granted only when all servers stand on this timeline, every shared part has
its values and lies in a committed cut, and, for the first one of the job, as many
trainers have asked as the user wants.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.missing import records_missing
from paceline.coordinator.outcomes import LeaseGranted, TaskDone, TaskFailed
from paceline.coordinator.rotation import Choice, decide_cell
from paceline.coordinator.status import count_records
from paceline.coordinator.stops import has_nothing_to_train
from paceline.coordinator.tasks import Pick, num_todo, pick_of, pick_task
from paceline.coordinator.tracking import may_enter, to_load
from paceline.ids import TaskKey
from paceline.messages import BlockAt, Lease

GATHER_S = 1.0  # a rotation waits so long for trainers that are on their way to it
MAX_LEASES = 16  # of one trainer: accumulation over tasks holds several


def grant(
    book: Book, trainer: str, incarnation: int, *, has_said: bool = False
) -> Lease | None:
    """Lease the next task to a trainer; None if there is none now.

    Args:
        book: of the coordinator.
        trainer: who asks.
        incarnation: of it.
        has_said: it holds more than others since its script has said so.
    """
    state, spec = book.durable, book.durable.stage_spec()
    if spec is None or not may_grant(book):
        return None
    if book.asked_stage.get(trainer, state.queue.stage) != state.queue.stage:
        return None
    held = len(state.queue.held_by(incarnation))
    pick = pick_for(book, trainer)
    if (held >= MAX_LEASES and not has_said) or pick is None:
        return None  # nobody's state is asked for on behalf of one who has nothing to do
    if not held and not _may_begin(book, incarnation):
        return None
    while pick is not None:
        key, first = pick.key, pick.resume.first
        failures = state.queue.failures.get(key.task, 0)
        timeouts = state.queue.timeouts.get(key.task, 0)
        crashes = state.queue.crashes.get(key.task, 0)
        if first >= spec.num_batches(key.task):
            book.commit(TaskDone(key, spec.task_records(key.task)))
            pick = pick_for(book, trainer)
        elif max(failures, timeouts, crashes) >= book.config.max_task_failures:
            records = spec.batch_records(key.task, 0, first - 1) if first else 0
            reason = (
                f"{failures} failures, {timeouts} time-outs and {crashes} crashes of its "
                "trainer in this epoch"
            )
            book.commit(TaskFailed(key, records, reason))
            book.effect(records_missing(spec, key, first, reason))
            pick = pick_for(book, trainer)
        else:
            return _lend(book, trainer, incarnation, pick)
    return None


def grant_ahead(book: Book, trainer: str, incarnation: int) -> Lease | str | None:
    """As `grant`, for who takes batches ahead of their steps, and has said how many.

    Returns:
        Why none comes before the asker's next step, if that is so.
    """
    state = book.durable
    lease = grant(book, trainer, incarnation, has_said=True)
    if lease is not None:
        return lease
    if state.stopped is not None:
        return f"the job is stopped: {state.stopped}"
    if not num_todo(state):
        return "no task is left that nobody works on"
    if book.track_from == incarnation:
        return f"{trainer} keeps the state of its tracked objects before its next batch"
    return book.pause_reason()


def pick_for(book: Book, trainer: str) -> Pick | None:
    """The next task for a trainer, None if there is none; of a rotation, its next cell."""
    if not book.is_rotating():
        return pick_task(book.durable)
    task = choose_cell(book, trainer).task
    return None if task is None else pick_of(book.durable, task)


def choose_cell(book: Book, trainer: str) -> Choice:
    """The next cell for a trainer in the stage's loop."""
    spec = book.durable.stage_spec()
    assert spec is not None
    assert spec.rotation is not None
    state, members = book.durable, participants(book)
    members[trainer] = state.trainers[trainer]  # its tick may ask, before it has asked
    return decide_cell(spec.rotation, spec.seed, state.queue, trainer, members)


def has_moved(book: Book, trainer: str, key: TaskKey) -> bool:
    """Whether a cell's data part was another's before."""
    spec, keepers = book.durable.stage_spec(), book.durable.queue.keepers
    if spec is None or spec.rotation is None:
        return False
    return keepers.get(spec.rotation.cell_of(key.task)[0]) != trainer


def take_block(book: Book, key: TaskKey) -> BlockAt | None:
    """Who has left a cell's block last, if it is here still; from now on nobody has."""
    spec = book.durable.stage_spec()
    if spec is None or spec.rotation is None:
        return None
    left = book.blocks_at.pop((key.stage, spec.rotation.cell_of(key.task)[1]), None)
    if left is None or book.durable.trainers.get(left[0].trainer) != left[1]:
        return None
    return left[0]


def leave_block(book: Book, key: TaskKey) -> None:
    """A cell's holder is done with it for now: it has the block's rows as they are."""
    spec, record = book.durable.stage_spec(), book.durable.queue.pending[key.task]
    if spec is not None and spec.rotation is not None:
        left = BlockAt(record.trainer, record.lease.token)
        if len(book.blocks_at) > spec.rotation.blocks:
            book.blocks_at.clear()  # of stages before
        block = spec.rotation.cell_of(key.task)[1]
        book.blocks_at[key.stage, block] = (left, record.incarnation)


def participants(book: Book) -> dict[str, int]:
    """{trainer: incarnation} of those in the current stage's loop, as far as is known."""
    state = book.durable
    queue = state.queue
    return {
        trainer: incarnation
        for trainer, incarnation in state.trainers.items()
        if book.asked_stage.get(trainer) == queue.stage or queue.does_hold(incarnation)
    }


def _lend(book: Book, trainer: str, incarnation: int, pick: Pick) -> Lease:
    """A lease of this task, journalled; one who held none enters with it."""
    state, key, first = book.durable, pick.key, pick.resume.first
    is_entering = not state.queue.held_by(incarnation)
    rounds = {part: state.parts[part].round + 1 for part in book.sync_parts()}
    tracked = to_load(book, incarnation) if is_entering else None
    token = state.next_token
    entry, clock, slowest = state.queue.entry_of(incarnation) or token, 0, 0
    if is_entering:
        clock, slowest = book.clocks.enter(incarnation, token, state.queue)
    records = state.round_records if rounds else count_records(book)
    edges, voids = pick.resume.edges, pick.resume.voids
    clocks = (entry, clock, slowest)
    is_moved = has_moved(book, trainer, key)
    known = (*clocks, records, voids, is_moved, take_block(book, key))
    lease = Lease(token, key, first, edges, rounds, tracked, *known)
    book.commit(LeaseGranted(lease, trainer, incarnation))
    if book.is_training():
        book.training.goes_on(key.stage, book.now, lambda: count_records(book))
    if is_entering:
        book.rounds.enters(trainer, book.now)
        book.speeds.enters(incarnation, book.now)
    book.entered.add(incarnation)
    if first:
        book.progress.advance(key, first - 1)
    book.start_clock(incarnation)
    return lease


def _may_begin(book: Book, incarnation: int) -> bool:
    """Whether a trainer without a lease may be among those who train."""
    is_between = is_mid_step(book) or book.rounds.are_exchanging(book.durable)
    is_ready = not is_between and book.knows_clocks()
    return is_ready and may_enter(book, incarnation)


def may_grant(book: Book) -> bool:
    """Whether leases can be granted at all now."""
    state = book.durable
    if book.wait_reason() is not None or has_nothing_to_train(state):
        return False
    if book.open_cut is not None and book.open_cut.ends_stage:
        return False  # its copy of the queue holds no lease
    if not state.has_started:
        return len(book.leases) >= book.first_trainers()
    return missing_from_ring(book) is None


def missing_from_ring(book: Book) -> list[str] | None:
    """Trainers that a rotation waits for before its first cell, if any.

    Who comes a moment late finds its data part begun by somebody else's look ahead, and has
    nothing to do for a whole round.
    """
    state, queue = book.durable, book.durable.queue
    stage, since_s = book.asked_first
    if not book.is_rotating() or queue.epoch or queue.keepers:
        return None
    if stage != queue.stage or book.now >= since_s + GATHER_S:
        return None
    late = [t for t in state.trainers if book.asked_stage.get(t, -1) < queue.stage]
    return sorted(late) or None


def is_mid_step(book: Book) -> bool:
    """Whether a holder of a lease is between two parts of one step."""
    return book.durable.queue.does_any_hold(book.durable.mid_step)


def finish_if_done(book: Book, key: TaskKey) -> None:
    """Close a pending task whose batches are all acknowledged in every part."""
    spec = book.durable.stage_spec()
    assert spec is not None
    last = book.progress.last_acked(key)
    if last == spec.num_batches(key.task) - 1 and is_pending(book, key):
        leave_block(book, key)
        book.commit(TaskDone(key, spec.task_records(key.task)))
        book.progress.forget(key)


def is_pending(book: Book, key: TaskKey) -> bool:
    """Whether somebody works on a task right now."""
    queue = book.durable.queue
    is_current = (key.stage, key.epoch) == (queue.stage, queue.epoch)
    return is_current and key.task in queue.pending
