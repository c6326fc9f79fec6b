"""Granting leases, and closing tasks whose batches are all acknowledged.

A lease is granted only when all servers stand on this timeline, every shared part has
its values and lies in a committed cut, and, for the first one of the job, as many
trainers have asked as the user wants.

What holds up all who ask for work, and whom it waits for.

Which records a given-up task leaves untrained: nothing is lost without a name.

Pure.
"""

import numpy as np

from paceline.coordinator.decisions.tracked import may_enter, to_load
from paceline.coordinator.durable import Choice, Durable, decide_cell, has_nothing_to_train
from paceline.coordinator.durable.outcomes import LeaseGranted, TaskDone, TaskFailed
from paceline.coordinator.ledgers import (
    Book,
    Cuts,
    Page,
    Pick,
    Reports,
    TaskProgress,
    TrainersSeen,
    num_todo,
    pick_of,
    pick_task,
)
from paceline.coordinator.ledgers.effects import Happened
from paceline.data.order import records_at
from paceline.data.split import batch_positions, task_positions
from paceline.ids import COORDINATOR, TaskKey, server_id
from paceline.messages.shared import BlockAt, Lease, StageSpec
from paceline.messages.waits import MOST_NAMED, Wait, listed, wait_for


def records_missing(spec: StageSpec, key: TaskKey, first: int, reason: str) -> Happened:
    """The line of the event log for a task that is given up before its batch ``first``.

    Its ``records`` are positions in the user's data set: of every record of the task's
    epoch that has had no effect. Which records a cell has only trainers know: it is named.
    """
    if spec.rotation is not None:
        count = spec.task_records(key.task) - spec.batch_records(key.task, 0, first - 1)
        cell = spec.rotation.cell_of(key.task)
        named: dict[str, object] = {"key": tuple(key), "reason": reason, "cell": cell}
        return Happened("RecordsMissing", {**named, "first": first, "count": count})
    start, _ = batch_positions(spec, key.task, first)
    _, stop = task_positions(spec, key.task)
    positions = np.arange(start, stop)
    records = records_at(
        positions, spec.records, spec.seed, key.epoch, spec.shuffle, loop=spec.loop
    )
    fields: dict[str, object] = {"key": tuple(key), "reason": reason}
    return Happened("RecordsMissing", {**fields, "records": records.tolist()})


GATHER_S = 1.0  # a rotation waits so long for trainers that are on their way to it
MAX_LEASES = 16  # of one trainer: accumulation over tasks holds several


def grant(
    book: Book, trainer: str, incarnation: int, *, has_said: bool = False
) -> Lease | None:
    """Lease the next task to a trainer; None if there is none now.

    With ``has_said`` it holds more than others, since its script has said so.
    """
    state, spec = book.durable, book.durable.stage_spec()
    if spec is None or not may_grant(book):
        return None
    if book.seen.asked_stage.get(trainer, state.queue.stage) != state.queue.stage:
        return None
    held = len(state.queue.held_by(incarnation))
    pick = pick_for(book, book.seen, trainer)
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
            pick = pick_for(book, book.seen, trainer)
        elif max(failures, timeouts, crashes) >= book.config.max_task_failures:
            records = spec.batch_records(key.task, 0, first - 1) if first else 0
            reason = (
                f"{failures} failures, {timeouts} time-outs and {crashes} crashes of its "
                "trainer in this epoch"
            )
            book.commit(TaskFailed(key, records, reason))
            book.effect(records_missing(spec, key, first, reason))
            pick = pick_for(book, book.seen, trainer)
        else:
            return _lend(book, spec, trainer, incarnation, pick)
    return None


def grant_ahead(book: Book, trainer: str, incarnation: int) -> Lease | Wait | None:
    """As `grant`, for who takes batches ahead of their steps, and has said how many.

    Returns:
        Why none comes before the asker's next step, if that is so.
    """
    state = book.durable
    lease = grant(book, trainer, incarnation, has_said=True)
    if lease is not None:
        return lease
    if state.stopped is not None:
        return Wait("stage", f"the job is stopped: {state.stopped}")
    if not num_todo(state):
        return Wait("lease", "no task is left that nobody works on")
    if book.keeping.track_from == incarnation:
        reason = f"{trainer} keeps the state of its tracked objects before its next batch"
        return wait_for("state", reason, [trainer])
    return pause_of_all(book)


def pick_for(page: Page, seen: TrainersSeen, trainer: str) -> Pick | None:
    """The next task for a trainer, None if there is none; of a rotation, its next cell."""
    if not page.is_rotating():
        return pick_task(page.durable)
    task = choose_cell(page.durable, seen, trainer).task
    return None if task is None else pick_of(page.durable, task)


def choose_cell(state: Durable, seen: TrainersSeen, trainer: str) -> Choice:
    """The next cell for a trainer in the stage's loop."""
    spec = state.stage_spec()
    assert spec is not None
    assert spec.rotation is not None
    members = participants(state, seen)
    members[trainer] = state.trainers[trainer]  # its tick may ask, before it has asked
    return decide_cell(spec.rotation, spec.seed, state.queue, trainer, members)


def has_moved(state: Durable, trainer: str, key: TaskKey) -> bool:
    """Whether a cell's data part was another's before."""
    spec, keepers = state.stage_spec(), state.queue.keepers
    if spec is None or spec.rotation is None:
        return False
    return keepers.get(spec.rotation.cell_of(key.task)[0]) != trainer


def take_block(state: Durable, seen: TrainersSeen, key: TaskKey) -> BlockAt | None:
    """Who has left a cell's block last, if it is here still; from now on nobody has."""
    spec = state.stage_spec()
    if spec is None or spec.rotation is None:
        return None
    left = seen.blocks_at.pop((key.stage, spec.rotation.cell_of(key.task)[1]), None)
    if left is None or state.trainers.get(left[0].trainer) != left[1]:
        return None
    return left[0]


def leave_block(state: Durable, seen: TrainersSeen, key: TaskKey) -> None:
    """A cell's holder is done with it for now: it has the block's rows as they are."""
    spec, record = state.stage_spec(), state.queue.pending[key.task]
    if spec is not None and spec.rotation is not None:
        left = BlockAt(record.trainer, record.lease.token)
        if len(seen.blocks_at) > spec.rotation.blocks:
            seen.blocks_at.clear()  # of stages before
        block = spec.rotation.cell_of(key.task)[1]
        seen.blocks_at[key.stage, block] = (left, record.incarnation)


def participants(state: Durable, seen: TrainersSeen) -> dict[str, int]:
    """{trainer: incarnation} of those in the current stage's loop, as far as is known."""
    queue = state.queue
    return {
        trainer: incarnation
        for trainer, incarnation in state.trainers.items()
        if seen.asked_stage.get(trainer) == queue.stage or queue.does_hold(incarnation)
    }


def _lend(book: Book, spec: StageSpec, trainer: str, incarnation: int, pick: Pick) -> Lease:
    """A lease of this task, journalled; one who held none enters with it."""
    state, key, first = book.durable, pick.key, pick.resume.first
    is_entering = not state.queue.held_by(incarnation)
    rounds = {part: state.parts[part].round + 1 for part in book.sync_parts()}
    tracked = (
        to_load(book, book.keeping, book.servers, incarnation) if is_entering else None
    )
    token = state.next_token
    entry, clock, slowest = state.queue.entry_of(incarnation) or token, 0, 0
    if is_entering:
        clock, slowest = book.clocks.enter(incarnation, token, state.queue)
    records = state.round_records if rounds else book.count_records()
    edges, voids = pick.resume.edges, pick.resume.voids
    clocks = (entry, clock, slowest)
    is_moved = has_moved(book.durable, trainer, key)
    known = (*clocks, records, voids, is_moved, take_block(book.durable, book.seen, key))
    is_end = tracked is not None and state.is_end_kept
    lease = Lease(token, key, first, edges, rounds, tracked, *known, is_end=is_end)
    book.commit(LeaseGranted(lease, trainer, incarnation))
    if key.stage != book.training.stage and book.is_training():
        book.training.begins(key.stage, book.now, book.count_records())
    if is_entering:
        book.rounds.enters(trainer, book.now)
        book.speeds.enters(incarnation, book.now)
    book.keeping.entered.add(incarnation)
    if first:
        book.progress.advance(spec, key, first - 1)
    book.deadlines.goes_on(incarnation, state.queue, book.now)
    return lease


def _may_begin(book: Book, incarnation: int) -> bool:
    """Whether a trainer without a lease may be among those who train."""
    is_between = is_mid_step(book.durable) or book.rounds.are_exchanging(book.durable)
    is_ready = not is_between and book.knows_clocks()
    return is_ready and may_enter(book, book.keeping, book.questions, incarnation)


def may_grant(book: Book) -> bool:
    """Whether leases can be granted at all now."""
    state = book.durable
    if wait_of_all(book) is not None:
        return False
    if state.stopped is not None and has_nothing_to_train(state):
        return False
    if book.cutting.open is not None and book.cutting.open.ends_stage:
        return False  # its copy of the queue holds no lease
    if not state.has_started:
        return len(book.questions.leases.asked) >= book.first_trainers()
    return missing_from_ring(book, book.seen) is None


def is_drained(book: Book) -> bool:
    """Whether all is leased that the epoch has: whoever asks now waits for its holders.

    Who asks with batches of its own that wait for their step is one of them: the epoch
    cannot end before it has pushed, so nothing is gained by waiting first.
    """
    return may_grant(book) and not num_todo(book.durable)


def missing_from_ring(page: Page, seen: TrainersSeen) -> list[str] | None:
    """Trainers that a rotation waits for before its first cell, if any.

    Who comes a moment late finds its data part begun by somebody else's look ahead, and has
    nothing to do for a whole round.
    """
    state, queue = page.durable, page.durable.queue
    stage, since_s = seen.asked_first
    if not page.is_rotating() or queue.epoch or queue.keepers:
        return None
    if stage != queue.stage or page.now >= since_s + GATHER_S:
        return None
    late = [t for t in state.trainers if seen.asked_stage.get(t, -1) < queue.stage]
    return sorted(late) or None


def is_mid_step(state: Durable) -> bool:
    """Whether a holder of a lease is between two parts of one step."""
    return state.queue.does_any_hold(state.mid_step)


def acknowledge_task(
    page: Page, progress: TaskProgress, seen: TrainersSeen, key: TaskKey, last: int
) -> None:
    """A pending task is acknowledged up to ``last`` in every part; with all, it is done."""
    spec = page.durable.stage_spec()
    assert spec is not None
    is_done = progress.advance(spec, key, last) == spec.num_batches(key.task) - 1
    if is_done and is_pending(page.durable, key):
        leave_block(page.durable, seen, key)
        page.commit(TaskDone(key, spec.task_records(key.task)))
        progress.forget(spec, key)


def is_pending(state: Durable, key: TaskKey) -> bool:
    """Whether somebody works on a task right now."""
    queue = state.queue
    is_current = (key.stage, key.epoch) == (queue.stage, queue.epoch)
    return is_current and key.task in queue.pending


def pause_of_all(book: Book) -> Wait | None:
    """Why nobody works just now, if the pace is to change; None if it is not."""
    state = book.durable
    if book.wish is None or not book.pauses():
        return None
    holders = sorted(state.queue.first_holders(MOST_NAMED))
    count = state.queue.num_holders()
    paces = ", ".join(sorted({str(pace) for pace in book.wish.paces.values()}))
    waits = f"; it waits for {listed(holders, count)} to give tasks back" if holders else ""
    reason = f"the pace changes to {paces}{waits}"
    return Wait("pace", reason, tuple(holders), count - len(holders))


def wait_of_all(book: Book, *, for_pace: bool = False) -> Wait | None:
    """Why none is leased now (``for_pace``: but its change); None if one can be."""
    state = book.durable
    if state.broken is not None:
        return wait_for("coordinator", f"the job has failed: {state.broken}", [COORDINATOR])
    if len(state.servers) < book.config.servers:
        missing = book.config.servers - len(state.servers)
        reason = f"{missing} of {book.config.servers} servers are not there yet"
        return wait_for("servers", reason, awaited_servers(book, book.servers))
    if book.cutting.sought is not None:
        reason = (
            f"{book.cutting.sought} cannot be read; the newest older whole cut is sought"
        )
        return wait_for("cut", reason, [COORDINATOR])
    if state.repaced is not None and not book.servers_ready():
        return wait_for(
            "pace", "servers take over the new pace", awaited_servers(book, book.servers)
        )
    if state.is_returning or not book.servers_ready():
        reason = f"servers return to cut {state.cut.cut if state.cut else 0}"
        return wait_for("servers", reason, awaited_servers(book, book.servers))
    if not book.parts_ready():
        return wait_for(
            "values", "a shared part has no values yet", _uploaders(book.durable)
        )
    if not book.is_cut_whole():
        return wait_for("cut", "the first cut is being taken", takers(book.cutting))
    if state.stage_spec() is None:
        stage = state.queue.stage
        late = [t for t in state.trainers if book.seen.asked_stage.get(t, -1) < stage]
        return wait_for("stage", f"no trainer has told the data of stage {stage}", late)
    return None if for_pace else pause_of_all(book)


def awaited_servers(page: Page, servers: Reports) -> list[str]:
    """Servers of the job that are not there, or not ready on this timeline."""
    live, state = page.durable.servers, page.durable
    awaited = []
    for server in (server_id(n) for n in range(page.config.servers)):
        report = servers.reports.get(server)
        stands = report and (report.incarnation, report.timeline, report.ready)
        if stands != (live.get(server), state.timeline, True):
            awaited.append(server)
    return awaited


def wait_for_fences(page: Page, servers: Reports) -> Wait:
    """Servers have not all fenced who is lost."""
    told = [servers.fences.get(incarnation, {}) for incarnation in page.durable.settling]
    names = (server_id(n) for n in range(page.config.servers))
    late = [server for server in names if any(server not in one for one in told)]
    return wait_for("servers", "servers fence a lost trainer", late)


def takers(cutting: Cuts) -> list[str]:
    """Who takes the open cut, as far as it is not done."""
    servers = cutting.open.missing() if cutting.open is not None else []
    return servers or [COORDINATOR]


def _uploaders(state: Durable) -> list[str]:
    """Trainers that send the first values of parts that have none."""
    names = state.incarnations()
    parts = state.parts.values()
    found = {names.get(part.uploader) for part in parts if not part.is_ready}
    return sorted(name for name in found if name is not None)
