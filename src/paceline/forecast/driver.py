"""Drives an act in virtual time: sends what it posts and asks, and tells it the replies.

Pure: whoever is driven says how messages travel, and what time it is.
"""

from abc import ABC, abstractmethod

from paceline.messages.shared import Message
from paceline.trainer.acts import (
    Act,
    Ask,
    Asking,
    Collect,
    ForgetPosted,
    Lost,
    Pause,
    Replies,
    SendPosted,
)

ASKED = 0  # the number of what is waited for at once; posts count from 1
_NOBODY = -1
_NOTHING: Replies = {}


class ActDriver(ABC):
    """Whoever lives by one act, until that is over."""

    def __init__(self, act: Act[None], asking: Asking) -> None:
        """Nothing has been asked; `resume` with None lets it begin."""
        self._act, self._asking = act, asking
        self._replies: dict[int, dict[str, Message | Lost | None]] = {}  # {number: replies}
        self._awaits = _NOBODY  # the number of what it waits for

    @abstractmethod
    def carry(self, number: int, role: str, message: Message) -> None:
        """Send a question; `got` is told the reply under its number."""

    @abstractmethod
    def waits(self, wanted: Ask | Collect | Pause) -> None:
        """It waits for this from now on; a pause ends when somebody lets it `resume`."""

    @abstractmethod
    def resume(self, replies: Replies | None) -> None:
        """Let it go on, with what it was waiting for, by `go_on`."""

    def got(self, number: int, role: str, reply: Message | Lost) -> None:
        """A reply is here; what was forgotten is answered to nobody."""
        asked = self._replies.get(number)
        if asked is None:
            return
        asked[role] = reply
        if number == self._awaits and (whole := self._whole(number)) is not None:
            self._awaits = _NOBODY
            self.resume(whole)

    def go_on(self, replies: Replies | None) -> Replies | None:
        """Let it do one thing.

        Returns:
            What it may go on with at once; None: it waits.

        Raises:
            StopIteration: it is over.
        """
        wanted = self._act.send(replies)  # type: ignore[arg-type]  # it begins with None
        for post in self._asking.take_posted():
            self._send(post.number, post.calls)
        if isinstance(wanted, SendPosted):
            return _NOTHING
        if isinstance(wanted, Collect):
            number = wanted.posted.number
            if (whole := self._whole(number)) is not None:
                return whole
            self._awaits = number
        elif isinstance(wanted, Ask):
            self._awaits = ASKED
            self._send(ASKED, wanted.calls)
        elif isinstance(wanted, ForgetPosted):
            self._replies.clear()
            return _NOTHING
        self.waits(wanted)
        return None

    def _send(self, number: int, calls: dict[str, Message]) -> None:
        self._replies[number] = dict.fromkeys(calls)
        for role, message in calls.items():
            self.carry(number, role, message)

    def _whole(self, number: int) -> Replies | None:
        """All replies under a number, which are let go of; None while one is missing."""
        replies = self._replies[number]
        if None in replies.values():
            return None
        del self._replies[number]
        return replies  # type: ignore[return-value]  # none is missing
