"""What this trainer waits for: since when, and what its terminal is told of it.

::

    asks, pauses, showing     it waits for somebody; a wait goes on through all of these
    heard                     who was asked has answered: the wait is over
    rests                     nobody has, and the trainer does something else: it goes on if
                              more is waited for within `GOES_ON_S`, else it is over

A wait of `TELL_AFTER_S` is told in one line, again while it lasts, at growing distances,
and once more when it is over; a full disk is told of every `TELL_AFTER_S`, as somebody must
do something about it. What the script computes is no wait.

One thread waits, and calls all but `look` and `current`, which are for others: it cannot
look while it waits, nor can the one that beats, which may wait for the coordinator. Several
times a step it asks and is answered at once, so that takes no lock: whoever looks finds
what it has asked, and takes it up.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import final

from paceline.ids import COORDINATOR, role_kind
from paceline.messages.shared import Message, Refusal, Waiting
from paceline.messages.trainer import Joined
from paceline.messages.waits import Wait, WaitKind, named, wait_for
from paceline.timing import Clock
from paceline.trainer.acts import (
    Ask,
    Collect,
    Lost,
    Pause,
    Post,
    Replies,
    Wanted,
    is_answer,
)
from paceline.trainer.client.stopwatch import OTHERS, SERVERS

TELL_AFTER_S = 10.0
TELL_AGAIN_S = 30.0  # behind the first line; then twice as long each time
LONGEST_AGAIN_S = 480.0
GOES_ON_S = 2.0  # a wait that was put off is taken up again within this
SILENT_S = 3.0  # whoever lets a question wait says so sooner: this one does not answer
LOOK_EVERY_S = 0.5  # by a thread of its own

_THAT_TELL = (Waiting, Joined)
_UNUSUAL = (*_THAT_TELL, Refusal, Lost)  # of all others nobody has to know more

_log = logging.getLogger("paceline.trainer")


@final
class Waits:
    """The waits of one trainer, one at a time."""

    def __init__(
        self, trainer: str, clock: Clock, tell: Callable[[str], None] = _log.warning
    ) -> None:
        self._trainer, self._clock, self._tell = trainer, clock, tell
        # Who was asked, and when, until anybody has looked or they have answered.
        self._asking: tuple[Mapping[str, Message], float] | None = None
        self._depth = 0  # of `showing`
        self._lock = threading.Lock()  # guards all below
        # None: nothing is waited for, but what is asked above. Read without the lock, too.
        self._began_s: float | None = None
        self._rests_s: float | None = None  # since when, if it does
        self._said: Wait | None = None  # by who was asked, or by the act
        self._asked: Mapping[str, Message] = {}  # who has not answered
        self._asked_s = 0.0
        self._lines: list[str] = []  # to be told, without the lock
        self._told: Wait | None = None  # what the last line said
        self._told_s = 0.0  # when that was; at first, when the wait began
        self._again_s = TELL_AGAIN_S

    def asks(self, calls: Mapping[str, Message], now_s: float) -> None:
        """The acting thread waits for the answers of these roles, from now on."""
        if self._depth:
            return
        if self._began_s is None:
            self._asking = (calls, now_s)
            return
        with self._lock:
            self._begin(now_s)
            self._asked, self._asked_s = calls, now_s
        if self._lines:
            self._say()

    def heard(self, replies: Replies) -> None:
        """They have answered, or not."""
        if self._depth or self._is_over(replies):
            return
        with self._lock:
            self._take_up()
            if self._began_s is not None:
                self._hear(replies)
        if self._lines:
            self._say()

    def pauses(self, wait: Wait, now_s: float) -> None:
        """The acting thread lets some time pass, since it waits for this."""
        if self._depth:
            return
        with self._lock:
            self._take_up()
            self._begin(now_s)
            self._said, self._asked = wait, {}
        if self._lines:
            self._say()

    def rests(self, now_s: float, *, is_over: bool = False) -> None:
        """The act has come to its end; ``is_over``: what it waited for is not wanted."""
        self._asking = None
        if self._began_s is None or self._depth:
            return
        with self._lock:
            if is_over:
                self._end()
            else:
                self._rest(now_s)
        if self._lines:
            self._say()

    @contextmanager
    def showing(self, wait: Wait) -> Iterator[None]:
        """Until the end of the block this is waited for, whatever is asked within."""
        if not self._depth:
            self.pauses(wait, self._clock.now_s())
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                with self._lock:
                    self._end()
                self._say()

    def current(self) -> Wait | None:
        """What is waited for now, and how long already."""
        with self._lock:
            self._take_up()
            return self._current() if self._rests_s is None else None

    def look(self) -> None:
        """Time has passed: tell what has lasted for too long."""
        with self._lock:
            self._take_up()
            now_s = self._clock.now_s()
            if self._rests_s is not None:
                if now_s - self._rests_s > GOES_ON_S:
                    self._end()
            elif (wait := self._current()) is not None and self._is_due(wait, now_s):
                is_first = self._told is None
                self._lines.append(_line(self._trainer, wait, is_first=is_first))
                if not is_first and wait.kind != "disk":
                    self._again_s = min(2 * self._again_s, LONGEST_AGAIN_S)
                self._told, self._told_s = wait, now_s
        self._say()

    def _is_over(self, replies: Replies) -> bool:
        """Whether they say all that was asked, and nobody has taken up that it was."""
        for reply in replies.values():
            if isinstance(reply, _UNUSUAL):
                return False
        # In this order, and the other one in `_take_up`: one of the two sees the other.
        self._asking = None
        return self._began_s is None

    # ------------------------------------------------------------ under the lock

    def _take_up(self) -> None:
        """What is asked has lasted until somebody looks: it is waited for."""
        asking = self._asking
        if asking is None:
            return
        calls, asked_s = asking
        self._begin(asked_s)
        self._asked, self._asked_s = calls, asked_s
        if self._asking is asking:
            self._asking = None
        else:
            self._end()  # they have answered just now

    def _is_due(self, wait: Wait, now_s: float) -> bool:
        is_steady = self._told is None or wait.kind == "disk"
        return now_s - self._told_s >= (TELL_AFTER_S if is_steady else self._again_s)

    def _begin(self, now_s: float) -> None:
        """It waits, or waits on."""
        if self._began_s is None:
            self._began_s = self._told_s = now_s
        elif self._rests_s is not None:
            self._go_on(self._rests_s, now_s)

    def _rest(self, now_s: float) -> None:
        """What is waited for, if anything, rests from now on."""
        if self._began_s is not None and self._rests_s is None:
            self._rests_s = now_s

    def _go_on(self, rests_s: float, now_s: float) -> None:
        """What has rested since then goes on, if it has not been too long."""
        if now_s - rests_s > GOES_ON_S:
            self._end()
            self._began_s = self._told_s = now_s
        self._rests_s = None

    def _hear(self, replies: Replies) -> None:
        self._asked = {}
        for reply in replies.values():
            if not isinstance(reply, _UNUSUAL):
                continue
            if isinstance(reply, _THAT_TELL) and reply.wait is not None:
                self._said = reply.wait
                return
            is_final = isinstance(reply, Refusal) and reply.kind != "not_ready"
            if not is_answer(reply) and not is_final:
                return
        self._end()

    def _end(self) -> None:
        if self._told is not None and self._began_s is not None:
            until_s = self._clock.now_s() if self._rests_s is None else self._rests_s
            lasted_s = until_s - self._began_s
            self._lines.append(_last_line(self._trainer, self._told, lasted_s))
        self._began_s = self._rests_s = self._said = self._told = None
        self._asked, self._again_s = {}, TELL_AGAIN_S

    def _current(self) -> Wait | None:
        if self._began_s is None:
            return None
        now_s = self._clock.now_s()
        wait = self._said
        if self._asked and (wait is None or now_s - self._asked_s > SILENT_S):
            wait = _unanswered(self._asked)
        return None if wait is None else wait.lasting(now_s - self._began_s)

    # ------------------------------------------------------------ without it

    def _say(self) -> None:
        """Tell what there is to tell: a terminal may take its time."""
        with self._lock:
            lines, self._lines = self._lines, []
        for line in lines:
            self._tell(line)


def whom_for(wanted: Wanted, posted: Sequence[Post]) -> int:
    """What seconds go into while an act gets what it wants: `SERVERS` or `OTHERS`.

    ``posted``: what is sent before. It is asked several times a step.
    """
    if type(wanted) is Ask:
        calls = wanted.calls
    elif type(wanted) is Collect:
        calls = wanted.posted.calls
    elif isinstance(wanted, Pause):
        wait = wanted.wait
        return SERVERS if wait is not None and wait.kind == "servers" else OTHERS
    else:
        calls = posted[0].calls if posted else {}
    for role in calls:  # the first: those of one question are of one kind
        return SERVERS if role[0] == "s" else OTHERS  # server-0, trainer-1, coordinator
    return OTHERS


def _unanswered(calls: Mapping[str, Message]) -> Wait:
    """Who was asked has not answered."""
    [*_, message] = calls.values()
    kind: WaitKind = "coordinator"
    if COORDINATOR not in calls:
        kind = "servers" if role_kind(next(iter(calls))) == "server" else "exchange"
    return wait_for(kind, f"{named(calls)}: {type(message).__name__}", calls)


def _line(trainer: str, wait: Wait, *, is_first: bool) -> str:
    waits = "waits" if is_first else "still waits"
    whom = f" for {wait.named()}" if wait.whom else ""
    return f"{trainer} {waits}{whom} ({wait.kind}), {wait.since_s:.0f} s: {wait.reason}"


def _last_line(trainer: str, told: Wait, seconds: float) -> str:
    whom = f" for {told.named()}" if told.whom else ""
    return f"{trainer} goes on after {seconds:.0f} s: it has waited{whom} ({told.kind})"
