"""How the job stands: what `paceline status`, the progress bar and the summary show.

Pure.
"""

from paceline.coordinator.book import NOT_TRAINING, Book
from paceline.coordinator.tasks import num_todo, returned_records
from paceline.messages import JobStatus, ProcessStatus, QueueStatus


def count_records(book: Book) -> int:
    """Acknowledged records, by the queue's own state and the open tasks' progress."""
    state = book.durable
    return state.queue.records + returned_records(state) + book.progress.records


def count_steps(book: Book) -> int:
    """Rounds or direct pushes applied, as far as the servers have reported."""
    versions = [
        max((part.version for part in report.parts.values()), default=0)
        for report in book.reports.values()
    ]
    return max([*versions, *book.durable.committed_rounds().values()], default=0)


def job_status(book: Book) -> JobStatus:
    """Everything that an observer may know."""
    state, queue, spec = book.durable, book.durable.queue, book.durable.stage_spec()
    worked_off, in_all = _evaluated(book)
    counters: dict[str, int] = {}
    for report in book.reports.values():
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
        records=count_records(book),
        tasks_done=queue.tasks_done,
        tasks_failed=queue.tasks_failed,
        steps=count_steps(book),
        metrics=book.metrics.last(),
        total_records=_total_records(book),
        timeline=state.timeline,
        cut=state.cut.cut if state.cut is not None else 0,
        counters=counters,
        stopped=state.stopped,
        error=state.broken,
        kind=spec.kind if spec is not None else "train",
        left_out=queue.left_out,
        left_epoch=queue.left_epoch,
        changing=None if book.wish is None else (book.wait_reason() or NOT_TRAINING),
        trained=book.training.told(book.now),
        stage_records=worked_off,
        stage_total=in_all,
        resumed=book.resumed,
    )


def _pace(book: Book) -> str:
    """The pace of all parts, or that of each."""
    specs = book.durable.trained()
    told = [f"auto: {s.pace}" if s.auto else str(s.pace) for s in specs.values()]
    if len(set(told)) > 1:
        pairs = zip(specs, told, strict=True)
        return "; ".join(f"part {part} {pace}" for part, pace in pairs)
    return told[0] if told else str(book.config.pace)


def _total_records(book: Book) -> int:
    """Records that all known loops train."""
    stages = book.durable.stages.values()
    return sum(spec.records * spec.epochs for spec in stages if spec.is_training)


def _evaluated(book: Book) -> tuple[int, int]:
    """Records that are worked off, of all, in a stage of evaluation or prediction."""
    spec, queue = book.durable.stage_spec(), book.durable.queue
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


def _processes(book: Book) -> tuple[ProcessStatus, ...]:
    processes = []
    for incarnation, role in sorted(
        book.durable.incarnations().items(), key=lambda item: item[1]
    ):
        info = book.members.info(incarnation)
        processes.append(
            ProcessStatus(
                role="trainer" if role in book.durable.trainers else "server",
                id=role,
                incarnation=incarnation,
                pid=info.pid if info else 0,
                host=info.host if info else "",
                address=info.address if info else "",
                state=info.state if info else "awaited",
                waiting_for=info.waiting_for if info else "",
                clock=info.clock if info else 0,
                records=book.trainer_records.get(role, 0),
            )
        )
    return tuple(processes)
