"""What a guest and its host say to each other, over a Unix socket of a private folder.

::

    guest --Arrive--> host --GuestPlace--> guest --Parted--> host --JobOver--> guest

Whoever comes once the job has ended is told `JobOver` in place of a role, and so is who
means another job than this one.

Pure: shapes alone.
"""

import msgspec


class Arrive(msgspec.Struct, frozen=True, tag=True):
    """A process wants to be a trainer; ``parent`` is whoever started it, and watches it.

    ``nonce`` tells parents of one id apart; ``wish`` is a digest of what job it means.
    """

    parent: int
    nonce: str = ""
    wish: str = ""


class ToldToLeave(msgspec.Struct, frozen=True, tag=True):
    """A signal has told the guest to end: if it dies now, nobody has to ask why."""


class Parted(msgspec.Struct, frozen=True, tag=True):
    """The guest has left the job; its script ended as with this exit code."""

    status: int


class GuestPlace(msgspec.Struct, frozen=True, tag=True):
    """The guest is the trainer that these variables of an environment name.

    ``said`` is for who has started it to read.
    """

    variables: dict[str, str]
    said: str = ""


class JobOver(msgspec.Struct, frozen=True, tag=True):
    """The job has ended, in words; ``status``: the exit code for who trains in vain."""

    text: str
    status: int


FromGuest = Arrive | ToldToLeave | Parted
FromHost = GuestPlace | JobOver
FROM_GUEST: msgspec.msgpack.Decoder[FromGuest] = msgspec.msgpack.Decoder(FromGuest)
FROM_HOST: msgspec.msgpack.Decoder[FromHost] = msgspec.msgpack.Decoder(FromHost)
