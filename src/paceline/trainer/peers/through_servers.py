"""Values that servers reduce: a collective call that goes through the rows of a table.

::

    push    whole rows, with the window: of a round the first replace, the others combine
    pull    the same rows, as of that round and no other

Servers take contributions in the order of the round, which is that of an exchange's
members: the same bits as between trainers.

Waits for nothing. The thread of the user's loop calls; rows land by whoever receives.
"""

from functools import partial
from typing import final

import numpy as np

from paceline.messages.data import PulledRows, PullRows
from paceline.messages.shared import Message
from paceline.params.rows import combine_equal
from paceline.trainer.client import Payload
from paceline.trainer.peers.reduction import Array
from paceline.trainer.rows import TableRows


@final
class Served:
    """The rows of one call: on their way to servers, and back when a round has them."""

    def __init__(self, rows: TableRows, values: Array) -> None:
        """Bring ``values``, one for each number of a dense table, of its dtype."""
        num_rows = rows.combine.num_rows
        assert num_rows is not None, "a keyed table has no whole"
        self._rows, self._ids = rows, np.arange(num_rows)
        self._own = values.reshape(num_rows, rows.spec.dim)
        self._requests: dict[str, Payload] = {}  # {server: question}
        self._rounds: dict[str, int] = {}  # {server: of which its rows are}
        self._came: Array = np.empty((0, rows.spec.dim), values.dtype)
        self._inverse = self._ids

    def write(self) -> None:
        """Let the values leave with the batch's push."""
        self._rows.write(self._ids, self._own, "replace")

    def questions(self) -> dict[str, Message]:
        """What to ask each server for; where it lies is as the plan of the moment says."""
        self._requests, self._came, self._inverse = self._rows.question(self._ids)
        self._rounds = {}
        return {server: one.message for server, one in self._requests.items()}

    def attach(self, role: str, message: Message) -> Payload | None:
        """A question of these, with the place for what comes; None for any other."""
        if not isinstance(message, PullRows) or message.part != self._rows.part:
            return None
        payload = self._requests[role]
        return payload._replace(message=message, landed=partial(self._landed, role))

    def result(self, at_round: int) -> Array | None:
        """What a round came to, (rows, dim); None if a later one has replaced it."""
        if self._rounds != dict.fromkeys(self._requests, at_round):
            return None
        rows = np.empty_like(self._inverse)  # of each number that has come
        rows[self._inverse] = self._ids
        return combine_equal("replace", rows, self._came, len(self._ids))

    def _landed(self, role: str, reply: Message) -> Message:
        if isinstance(reply, PulledRows):
            self._rounds[role] = reply.round
        return reply
