"""Cuts that cannot be written: since when, whether the job stands still for one, in words.

Pure.
"""

from paceline.coordinator.book import Book
from paceline.messages import Trouble
from paceline.timing import in_words


def note_failure(book: Book, cut: int, reason: str) -> None:
    """A cut could not be taken; the next is tried at `Book.retry_cut_s`."""
    if book.cut_trouble is None:
        book.cut_trouble_s = book.now
    book.cut_trouble = f"cut {cut} failed: {reason}"
    book.cut_why = reason


def note_success(book: Book) -> None:
    """A cut is taken."""
    book.failed_cuts, book.cut_trouble, book.cut_awaited_s = 0, None, None


def note_wait(book: Book, *, waits: bool) -> None:
    """Whether work goes on only with a cut, while cuts fail."""
    if not waits:
        book.cut_awaited_s = None
    elif book.cut_awaited_s is None:
        book.cut_awaited_s = book.now


def cut_trouble(book: Book) -> Trouble | None:
    """What observers are told; None while cuts are taken."""
    if book.cut_trouble is None:
        return None
    pause_s = book.retry_cut_s - book.now
    tried = f"next try in {in_words(pause_s)}"
    if book.open_cut is not None:
        tried = "tried again now"
    elif pause_s <= 0:
        tried = "tried again when the next one is due"
    since_s, waited_s = book.now - book.cut_trouble_s, None
    said = "no checkpoint can be written"
    if book.cut_awaited_s is not None:
        since_s = waited_s = book.now - book.cut_awaited_s
        which = "last" if book.is_cut_whole() else "first"
        said = f"waits for the {which} checkpoint"
    text = f"{said}: {book.cut_why}; {tried}; since {in_words(since_s)}"
    return Trouble("checkpoint", book.config.checkpoints, text, waited_s)
