"""The link ``trainer --PeerRequest--> trainer``, and the replies.

A request names who asks and who is meant: ``to`` is the incarnation that the asker knows of
the other. One who is somebody else by now, or on another timeline, refuses:

=============  ==================================================================
``fenced``     the asker's incarnation is over; another of its trainer was here
``timeline``   the asker's timeline was left
``stale``      whom the asker means is gone: ask the coordinator for `Peers`
``not_ready``  the asker is ahead: the other has not heard of it yet; ask again
=============  ==================================================================
"""

import msgspec

from paceline.messages.shared import Done, Message, Refusal, Waiting


class PeerMessage(Message, frozen=True):
    """What every request to another trainer carries."""

    incarnation: int
    timeline: int
    to: int


class ArraySpec(msgspec.Struct, frozen=True):
    """An array of the buffers: shape, and NumPy's name of a fixed-width dtype."""

    shape: tuple[int, ...]
    dtype: str


class SendEvent(PeerMessage, frozen=True):
    """An event for another trainer's inbox; a repetition has the same ``number``.

    ``since`` is the incarnation in which the sender's script began to count; it stays when
    the sender has to join again, so that what it repeats then is known.

    Buffers: one for each of ``arrays``; without arrays, one with the bytes. Answered by
    `Done` once it is in the inbox, `Waiting` while there is no room.
    """

    since: int
    number: int
    topic: str
    arrays: tuple[ArraySpec, ...] | None = None


class AskValues(PeerMessage, frozen=True):
    """Ask for values of an exchange that both are members of.

    ``stage`` 0: what the other has brought; 1: its slice of what all of it comes to. With
    ``slice_of`` (index, slices) only that slice of each array. Answered by `Values`, or
    `Waiting` while the other has not come as far.
    """

    exchange: int
    stage: int
    slice_of: tuple[int, int] | None = None


class AskBlock(PeerMessage, frozen=True):
    """Ask for a block of a rotating table, as the other left it with the lease ``token``.

    Answered by `Values` with its rows, or refused as ``invalid``: they are not there any
    more, and lie at home.
    """

    part: int
    block: int
    token: int


class Values(Message, frozen=True):
    """The values. Buffers: one for each of ``arrays``."""

    arrays: tuple[ArraySpec, ...]


PeerRequest = SendEvent | AskValues | AskBlock
PeerReply = Done | Values | Waiting | Refusal
