"""Rows that are asked for behind a push, in the same request.

::

    push with rows behind it    the push, as if it came alone
      acknowledged              the rows, as if they were asked for now
                                one answer with both
      anything else             that is the answer: the trainer comes again with the same

So the rows are read after the push, however often it had to come: a repeated one is a
duplicate, and is acknowledged.

Waits for nothing. Whatever thread acknowledges the push asks for the rows.
"""

import functools
from collections.abc import Callable, Sequence
from typing import final

import msgspec

from paceline.errors import UsageError
from paceline.messages.data import PulledRows, PullRows, Push, Pushed
from paceline.server.answers.answers import RowsReply
from paceline.server.requests.contents import Bytes
from paceline.transport.frames import Buffer
from paceline.transport.service import Reply

AskRows = Callable[[PullRows, list[Bytes], Reply], None]


def with_rows(
    push: Push, buffers: list[Bytes], reply: Reply, ask: AskRows
) -> tuple[list[Bytes], Reply]:
    """What there is of the push itself: its buffers, and the way back to it.

    Raises:
        UsageError: the push is of a round, whose rows are there only when all have pushed.
    """
    assert push.behind is not None
    if push.round is not None:
        raise UsageError(
            f"a push of round {push.round} is acknowledged before it is applied: expected "
            "rows to be asked for by themselves, got them behind it"
        )
    stop = max(0, len(buffers) - len(push.behind.rows))
    return buffers[:stop], _Acknowledged(push.behind, buffers[stop:], reply, ask)


@final
class _Acknowledged:
    """The way back of the push."""

    def __init__(
        self, behind: PullRows, ids: list[Bytes], reply: Reply, ask: AskRows
    ) -> None:
        self._behind, self._ids = behind, ids
        self._reply, self._ask = reply, ask

    def __call__(self, message: msgspec.Struct, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, Pushed):
            both = functools.partial(_both, message)
            self._ask(self._behind, self._ids, RowsReply(self._reply, both))
        else:
            self._reply(message, buffers)


def _both(pushed: Pushed, rows: PulledRows) -> Pushed:
    return msgspec.structs.replace(pushed, behind=rows)
