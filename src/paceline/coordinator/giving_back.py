"""Leases that go back to the queue before their tasks are done.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.coordinator.grants import finish_if_done
from paceline.coordinator.outcomes import TaskReturned
from paceline.messages import TrainerMessage


def give_back(
    book: Book,
    message: TrainerMessage,
    acked_by_token: dict[int, int],
    reason: str,
    *,
    failed: bool,
) -> None:
    """Put the leases that a trainer names back into the queue, behind what is acknowledged.

    Args:
        book: of the job.
        message: of the trainer that gives them back.
        acked_by_token: ``{token: last acknowledged batch}``; other leases stay.
        reason: why.
        failed: whether the task could not be worked on.
    """
    for record in list(book.durable.queue.held_by(message.incarnation).values()):
        lease = record.lease
        if lease.token not in acked_by_token:
            continue
        first = max(acked_by_token[lease.token], lease.first - 1) + 1
        book.progress.advance(lease.key, first - 1)
        finish_if_done(book, lease.key)
        if lease.key.task in book.durable.queue.pending:
            edges = tuple(edge for edge in lease.edges if edge >= first)
            book.commit(TaskReturned(lease.key, first, edges, failed, reason, lease.voids))
            book.progress.forget(lease.key)
