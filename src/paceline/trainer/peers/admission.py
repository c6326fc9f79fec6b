"""Who may ask something of a trainer: judged by incarnation and timeline, at its door.

::

    the asker's trainer was here as a later one    fenced      it is over
    the asker's timeline was left                  timeline    it will hear of it
    the asker means who was here before            stale       it must ask who is here now
    the asker is ahead of this trainer             not_ready   this one will hear of it

A refusal decides nothing for good but ``fenced``: incarnations and timelines only grow.

Pure.
"""

from typing import final

from paceline.messages.peers import PeerMessage
from paceline.messages.shared import Refusal


@final
class Admission:
    """The trainers that have come to one trainer's door."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # {trainer: its latest incarnation here}

    def refusal_of(
        self, asker: str, message: PeerMessage, incarnation: int, timeline: int | None
    ) -> Refusal | None:
        """Why a request is not even looked at; None if it is.

        ``incarnation`` and ``timeline`` are of whom is asked; None: it does not matter.
        """
        at = message.timeline if timeline is None else timeline
        newest = max(self._newest.get(asker, 0), message.incarnation)
        self._newest[asker] = newest
        if message.incarnation < newest:
            text = f"{asker}: incarnation {message.incarnation} is over; {newest} was here"
            return Refusal(kind="fenced", text=text, timeline=at)
        if message.timeline < at:
            text = f"timeline {message.timeline} was left; now is {at}"
            return Refusal(kind="timeline", text=text, timeline=at)
        if message.to < incarnation:
            text = f"incarnation {message.to} is over; now here is {incarnation}"
            return Refusal(kind="stale", text=text, timeline=at)
        if message.timeline > at or message.to > incarnation:
            text = (
                f"incarnation {incarnation} on timeline {at} has not heard of "
                f"incarnation {message.to} on timeline {message.timeline} yet"
            )
            return Refusal(kind="not_ready", text=text, timeline=at)
        return None
