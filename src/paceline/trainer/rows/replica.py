"""A trainer's own copy of a table that all read and change: no batch waits for it.

::

    batch n        pulls from the copy; what it pushes is in the copy at once
    n is over      its push has been acknowledged; every few batches the rows are asked
                   for behind it, and nobody waits
    n + 1 is over  servers answer in order, so the answer is here: it is the copy now, with
                   what was pushed here since it was asked for

So the copy has all that this trainer has pushed, and of others all that servers had when
this trainer's batch before the last ``every`` was over. It belongs to one loop of one
incarnation on one timeline: in another one, and when an answer was lost, rows are asked
for anew, and waited for.

Waits: in `read`, where there is no copy; in `pushed`, for an answer that has come. The
thread of the user's script calls.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import msgspec
import numpy as np

from paceline.messages.data import PulledRows
from paceline.params.rows import Array, Int64s, combine_rows
from paceline.trainer.client import Driver, Payload, Sent
from paceline.trainer.protocol import TrainerProtocol


class Written(NamedTuple):
    """What was pushed: distinct ids (n,), values (n, dim), and the rule."""

    ids: Int64s
    values: Array
    rule: str


class Moment(NamedTuple):
    """To what a copy belongs: the n-th stage, of an incarnation, on a timeline."""

    stage: int
    incarnation: int
    timeline: int


class Question(NamedTuple):
    """Rows of ids of a table, asked of its servers; none of them is made."""

    requests: dict[str, Payload]  # {server: its share}
    values: Array  # where rows land, in the route's order
    inverse: Int64s  # the place there of each id


class _Asked(NamedTuple):
    """Rows that are on their way."""

    question: Question
    sent: dict[str, Sent]  # {server: its share, if it could be asked}


@final
class Replica:
    """The copy of one dense table, as long as a loop lasts."""

    def __init__(
        self,
        part: int,
        every: int,
        protocol: TrainerProtocol,
        driver: Driver,
        is_in_loop: Callable[[], bool],
    ) -> None:
        """No copy yet; ``every``: batches after which it is asked for again."""
        self._part, self._every = part, every
        self._protocol, self._driver, self._is_in_loop = protocol, driver, is_in_loop
        self._moment: Moment | None = None  # of the copy
        self._values: Array | None = None  # (rows, dim); None: there is no copy
        self._asked: _Asked | None = None
        self._since: list[Written] = []  # pushed since the rows on their way were asked for
        self._num_pushes = 0  # that the copy has, of all that were made
        self._batches = 0  # since the copy was asked for

    def read(self, ids: Int64s, wait_all: Callable[[], Array]) -> Array | None:
        """Rows of ids (n,), repeated or not, as a new array (n, dim); None without a loop.

        ``wait_all``: all rows as servers have them now, (rows, dim), the caller's own.
        """
        while (moment := self._where()) is not None:
            if self._values is not None and self._moment == moment:
                return self._values[ids]
            self._forget()
            # While servers are asked, the trainer may become somebody else.
            values = wait_all()
            if self._where() == moment:
                self._values, self._moment = values, moment
                self._num_pushes = self._protocol.parts[self._part].number
        return None

    def pushed(self, written: Sequence[Written], ask: Callable[[], Question]) -> None:
        """A batch is over for the table.

        ``written``: what it had for a push; if there was one, servers have it. ``ask``: all
        rows, as a question to servers.
        """
        moment, number = self._where(), self._protocol.parts[self._part].number
        if self._values is None or moment is None or moment != self._moment:
            return
        if number == self._num_pushes:
            return  # nothing was pushed: the batches were another's by then
        self._batches += number - self._num_pushes
        self._num_pushes = number
        if all(_is_finite(one) for one in written):  # else the push went without
            self._since += written if self._asked is not None else ()
            self._combine(self._values, written)
        if self._asked is not None:
            self._values = self._wait_answer(self._asked)
        if self._batches >= self._every:
            self._ask(ask())

    def _where(self) -> Moment | None:
        """Where the trainer stands; None outside of a loop, or as long as it must join."""
        protocol = self._protocol
        if protocol.stage is None or protocol.must_join or not self._is_in_loop():
            return None
        asking = protocol.asking
        return Moment(protocol.stage.stage, asking.incarnation, asking.timeline)

    def _ask(self, question: Question) -> None:
        sent: dict[str, Sent] = {}
        for server, payload in question.requests.items():
            who = self._protocol.asking.who()
            message = msgspec.structs.replace(payload.message, **who)
            found = self._driver.send(server, payload._replace(message=message))
            if found is not None:
                sent[server] = found
        self._asked = _Asked(question, sent)
        self._batches = 0

    def _wait_answer(self, asked: _Asked) -> Array | None:
        """The rows that were asked for behind the push before; None if they are lost."""
        since = self._since
        if not self._settle():
            return None
        values = asked.question.values[asked.question.inverse]
        self._combine(values, since)
        return values

    def _settle(self) -> bool:
        """No question is open any more; whether all of the last one were answered."""
        asked, self._asked, self._since = self._asked, None, []
        if asked is None:
            return False
        found = [self._driver.settle(s, one) for s, one in asked.sent.items()]
        answered = [reply for reply in found if isinstance(reply, PulledRows)]
        return len(answered) == len(asked.question.requests)

    def _forget(self) -> None:
        self._settle()
        self._values, self._batches = None, 0

    def _combine(self, values: Array, written: Sequence[Written]) -> None:
        for one in written:
            combine_rows(one.rule, values, one.ids, one.values)


def _is_finite(written: Written) -> bool:
    is_sum = written.rule == "add" and written.values.dtype.kind == "f"
    return not is_sum or bool(np.isfinite(written.values).all())
