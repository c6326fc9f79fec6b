"""How the job stands: what `paceline status`, the progress bar and the summary show.

Cuts that cannot be written: since when, whether the job stands still for one, in words.

Pure.
"""

from paceline.coordinator.decisions.leases import wait_of_all
from paceline.coordinator.durable import Durable
from paceline.coordinator.ledgers import NOT_TRAINING, Book, Cuts, Page, Reports, num_todo
from paceline.messages.waits import Wait
from paceline.messages.watching import JobStatus, ProcessStatus, QueueStatus, Trouble
from paceline.timing import in_words


def cut_trouble(page: Page, cutting: Cuts) -> Trouble | None:
    """What observers are told; None while cuts are taken."""
    if cutting.trouble is None:
        return None
    pause_s = cutting.retry_s - page.now
    tried = f"next try in {in_words(pause_s)}"
    if page.durable.broken is not None:
        return Trouble(
            "checkpoint",
            page.config.checkpoints,
            f"no checkpoint can be written: {cutting.why}",
            None,
        )
    if cutting.open is not None:
        tried = "tried again now"
    elif pause_s <= 0:
        tried = "tried again when the next one is due"
    since_s, waited_s = page.now - cutting.trouble_s, None
    said = "no checkpoint can be written"
    if cutting.awaited_s is not None:
        since_s = waited_s = page.now - cutting.awaited_s
        which = "last" if page.is_cut_whole() else "first"
        said = f"waits for the {which} checkpoint"
    text = f"{said}: {cutting.why}; {tried}; since {in_words(since_s)}"
    return Trouble("checkpoint", page.config.checkpoints, text, waited_s)


def count_steps(state: Durable, servers: Reports) -> int:
    """Rounds or direct pushes applied, as far as the servers have reported."""
    versions = [
        max((part.version for part in report.parts.values()), default=0)
        for report in servers.reports.values()
    ]
    return max([*versions, *state.committed_rounds().values()], default=0)


def job_status(book: Book) -> JobStatus:
    """Everything that an observer may know."""
    state, queue, spec = book.durable, book.durable.queue, book.durable.stage_spec()
    worked_off, in_all = _evaluated(book.durable)
    counters: dict[str, int] = {}
    for report in book.servers.reports.values():
        for name, count in report.counters.items():
            counters[name] = counters.get(name, 0) + count
    if state.late_pushes:
        counters["late"] = state.late_pushes
        counters["late_records"] = state.late_records
    return JobStatus(
        state=_state(book),
        queue=QueueStatus(
            todo=num_todo(state),
            pending=len(queue.pending),
            done=queue.num_done(),
            failed=len(queue.failed),
            epoch=queue.epoch,
        ),
        pace=_pace(book),
        processes=_processes(book),
        epochs=queue.epochs_done,
        records=book.count_records(),
        tasks_done=queue.tasks_done,
        tasks_failed=queue.tasks_failed,
        steps=count_steps(book.durable, book.servers),
        metrics=book.metrics.last(),
        total_records=_total_records(book.durable),
        timeline=state.timeline,
        cut=state.cut.cut if state.cut is not None else 0,
        counters=counters,
        stopped=state.stopped,
        error=state.broken,
        kind=spec.kind if spec is not None else "train",
        left_out=queue.left_out,
        left_epoch=queue.left_epoch,
        trouble=cut_trouble(book, book.cutting),
        changing=_changing(book),
        trained=book.training.told(book.now),
        stage_records=worked_off,
        stage_total=in_all,
        resumed=book.resumed,
        no_room=book.no_room,
        has_trainers=bool(state.trainers or state.left or state.stages or state.parts),
    )


def _pace(page: Page) -> str:
    """The pace of all parts, or that of each."""
    specs = page.durable.trained()
    told = [f"auto: {s.pace}" if s.auto else str(s.pace) for s in specs.values()]
    if len(set(told)) > 1:
        pairs = zip(specs, told, strict=True)
        return "; ".join(f"part {part} {pace}" for part, pace in pairs)
    return told[0] if told else str(page.config.pace)


def _total_records(state: Durable) -> int:
    """Records that all known loops train."""
    stages = state.stages.values()
    return sum(spec.records * spec.epochs for spec in stages if spec.is_training)


def _evaluated(state: Durable) -> tuple[int, int]:
    """Records that are worked off, of all, in a stage of evaluation or prediction."""
    spec, queue = state.stage_spec(), state.queue
    if spec is None or spec.is_training:
        return 0, 0
    begun = min(queue.next_fresh * spec.task_size, spec.records)
    return begun - sum(map(spec.task_records, queue.open)), spec.records


def _state(book: Book) -> str:
    state = book.durable
    if state.broken is not None:
        return "failed"
    if state.is_returning:
        return "returning"
    if state.stopped is not None:
        return "stopping"
    return "running" if state.has_started else "starting"


def _changing(book: Book) -> str | None:
    """What a change of pace waits for, if there is to be one."""
    if book.wish is None:
        return None
    wait = wait_of_all(book)
    return NOT_TRAINING if wait is None else wait.reason


def waits(book: Book) -> dict[int, Wait]:
    """What trainers wait for: {incarnation: wait}."""
    found = {}
    for incarnation in book.durable.trainers.values():
        info = book.members.info(incarnation)
        if info is not None and info.wait is not None:
            lasts_s = info.wait.since_s + book.now - info.wait_s
            found[incarnation] = info.wait.lasting(lasts_s)
    for parts in (book.questions.ticks, book.questions.meets, book.questions.shares):
        found |= {incarnation: wait for (incarnation, _), wait in parts.waits(book.now)}
    for asked in (
        book.questions.leases,
        book.questions.ahead,
        book.questions.saves,
        book.questions.steps,
    ):
        found |= dict(asked.waits(book.now))
    return found


def _clock(book: Book, incarnation: int) -> int:
    """Steps that a trainer has finished: told by itself, or counted in rounds."""
    info = book.members.info(incarnation)
    in_rounds = [part.counted.get(incarnation, 0) for part in book.durable.parts.values()]
    return max([0 if info is None else info.clock, *in_rounds])


def _processes(book: Book) -> tuple[ProcessStatus, ...]:
    processes, waiting = [], waits(book)
    for incarnation, role in sorted(
        book.durable.incarnations().items(), key=lambda item: item[1]
    ):
        info, wait = book.members.info(incarnation), waiting.get(incarnation)
        report = book.servers.reports.get(role)
        state = info.state if info else "awaited"
        processes.append(
            ProcessStatus(
                role="trainer" if role in book.durable.trainers else "server",
                id=role,
                incarnation=incarnation,
                pid=info.pid if info else 0,
                host=info.host if info else "",
                address=info.address if info else "",
                state="waiting" if wait is not None else state,
                wait=wait,
                clock=_clock(book, incarnation),
                records=book.seen.records.get(role, 0),
                spent=info.spent if info else None,
                load=book.servers.loads.get(role, ()),
                counters={} if report is None else report.counters,
            )
        )
    return tuple(processes)
