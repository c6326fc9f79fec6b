"""Waiting for a cut, with the tracked state that it is to hold.

Pure.
"""

from collections.abc import Callable

from paceline.messages import Save, Saved
from paceline.trainer.asking import Act, Asking
from paceline.trainer.tracking import Tracking


def wait_saved(
    asking: Asking,
    tracked: Tracking,
    keep: Callable[[], Act[None]],
    number: int,
    left: int | None = None,
) -> Act[int]:
    """Ask for a cut until it is committed; keep tracked state whenever it is wanted.

    Args:
        asking: for whom.
        tracked: how its objects stand.
        keep: keeps their state.
        number: makes a repetition the same request.
        left: the stage whose loop was left early, if that is the reason.

    Returns:
        The number of the cut.
    """
    while True:
        if tracked.is_wanted:
            yield from keep()
        save = Save(**asking.who(), number=number, left=left)
        reply = yield from asking.ask_once(save)
        if isinstance(reply, Saved):
            return reply.cut
        tracked.is_wanted = False
        tracked.note(reply)
