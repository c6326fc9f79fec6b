"""What a server decides: pure, no numbers.

::

    state        orders of the coordinator, reports; one step over several servers, whole
                 or not at all
    taking       requests of trainers, and the marks that decide about a push
    part         a shared part: slots, pace, how far it is
    verdicts     what becomes of a push, or of a round of them
    voids        windows without effect
    tracked      which state of tracked objects counts

Pure.
"""

from paceline.server.decisions.state import ServerState
from paceline.server.decisions.taking import SlotMarks
from paceline.server.decisions.tracked import TrackedState, TrackedStates
from paceline.server.decisions.voids import KeptVoid
