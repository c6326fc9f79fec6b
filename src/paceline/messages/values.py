"""What one trainer does for all: anything that is done once, or set values.

Of values that a script has changed itself: who may set them, and how they travel.

On the links ``trainer --TrainerRequest--> coordinator`` and
``trainer --DataRequest--> server``.
"""

from typing import Literal

from paceline.messages.shared import Message, TrainerMessage


class ClaimOnce(TrainerMessage, frozen=True):
    """Ask to be the one trainer that does ``name``; answered by `Claimed`."""

    name: str


class Claimed(Message, frozen=True):
    """Whether the asker is the one."""

    mine: bool


class ClaimValues(TrainerMessage, frozen=True):
    """Ask whether values that the script has changed here are to become everybody's.

    ``call``: it is the script's n-th `Session.set_values` between loops; 0: the script has
    only changed them. ``stage``: that is about to begin; None in the middle of one.
    Answered by `ValuesClaimed`, or `Waiting`: somebody else sets them just now.
    """

    call: int = 0
    stage: int | None = None


class ValuesClaimed(Message, frozen=True):
    """``yours``: the asker sends them, and says `ValuesSet`.

    ``done``: what the servers have counts: the call, or the stage, is an old one.
    ``several``: other ``trainers`` are here, or will be, and nobody has called anything.
    """

    verdict: Literal["yours", "done", "several"]
    trainers: int


class ValuesSet(TrainerMessage, frozen=True):
    """All servers have the values of this call, or of before this stage.

    With neither: the sender is done, and a cut has them where it is to have them.
    """

    call: int = 0
    stage: int | None = None


class SetValues(TrainerMessage, frozen=True):
    """Replace values of dense slots that are trained already. Buffers: one per slot.

    It comes behind all pushes up to ``number`` and before all later ones of its sender,
    whose ``tag`` grows with every such message. In rounds, behind ``at_round``. It counts
    as an update; the optimizer's state stays. Answered by `Pushed`.
    """

    part: int
    number: int
    tag: int
    slots: tuple[int, ...]
    at_round: int = 0
