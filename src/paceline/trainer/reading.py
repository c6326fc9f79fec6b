"""Values that are read in the middle of a step, whatever becomes of the timeline.

Pure.
"""

from collections.abc import Callable

from paceline.messages import Message
from paceline.trainer.asking import Abandoned, Act, Asking


def read_values(
    asking: Asking, messages: dict[str, Message], abandon: Callable[[str], Act[None]]
) -> Act[dict[str, Message]]:
    """Ask servers for values, on whatever timeline they are.

    What is read on a new timeline serves only a step that will be dropped: ``abandon`` is
    told why, and the next batch joins again.
    """
    replies: dict[str, Message] = {}
    while True:
        try:
            found = yield from asking.ask_servers(
                {
                    server: asking.current(message)
                    for server, message in messages.items()
                    if server not in replies
                }
            )
        except Abandoned as gone:
            yield from abandon(str(gone))
            yield from asking.follow_timeline()
            replies = {}
            continue
        return {**replies, **found}
