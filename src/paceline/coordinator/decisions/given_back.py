"""Leases that their holder gives back: how far it came, and why it goes no further.

Pure.
"""

from paceline.coordinator.decisions.leases import finish_if_done, leave_block
from paceline.coordinator.durable.outcomes import TaskReturned
from paceline.coordinator.ledgers import Page, TaskProgress, TrainersSeen
from paceline.messages.trainer import FailTask, HandBack


def give_back(
    page: Page,
    progress: TaskProgress,
    seen: TrainersSeen,
    message: HandBack | FailTask,
    acked_by_token: dict[int, int],
) -> None:
    """Put the tasks of these leases back to ``todo``, or close them if they are complete.

    Args:
        page: of the event.
        progress: of the tasks.
        seen: of trainers.
        message: says why; what its sender does not hold is passed over.
        acked_by_token: {lease: last batch acknowledged in every part}.
    """
    reason, is_carried = _why(message)
    for record in list(page.durable.queue.held_by(message.incarnation).values()):
        lease = record.lease
        if lease.token not in acked_by_token:
            continue
        first = max(acked_by_token[lease.token], lease.first - 1) + 1
        progress.advance(lease.key, first - 1)
        finish_if_done(page, progress, seen, lease.key)
        if lease.key.task in page.durable.queue.pending:
            edges = tuple(edge for edge in lease.edges if edge >= first)
            failed = isinstance(message, FailTask)
            back = (lease.key, first, edges, failed, reason, lease.voids, is_carried)
            if is_carried:
                leave_block(page.durable, seen, lease.key)
            page.commit(TaskReturned(*back))
            progress.forget(lease.key)


def _why(message: HandBack | FailTask) -> tuple[str, bool]:
    """The reason in words, and whether a cell is carried over."""
    if isinstance(message, FailTask):
        return message.error, False
    is_carried = message.is_carried
    return ("its time is over" if is_carried else "handed back"), is_carried
