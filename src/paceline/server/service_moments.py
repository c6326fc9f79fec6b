"""Moments of a server that are held, or on their way from one pace to another.

Waits for nothing. Any thread.
"""

import threading
from typing import NamedTuple

from paceline.params.snapshot import SlotSnapshot
from paceline.server.service_queue import Action
from paceline.server.service_slots import Slots
from paceline.server.tracked import TrackedState
from paceline.server.voids import KeptVoid
from paceline.server.windows import SlotMarks


class Pinned(NamedTuple):
    """A moment that is held for a cut: by every slot when ``done`` is set.

    ``run`` must be called once, by anybody.
    """

    timeline: int
    slots: Slots
    snapshots: dict[int, SlotSnapshot]  # {slot: snapshot}
    marks: dict[int, SlotMarks]  # {slot: marks}
    versions: dict[int, int]  # {part: updates applied}
    voids: tuple[KeptVoid, ...]
    tracked: TrackedState
    run: Action
    done: threading.Event


class Repacing(NamedTuple):
    """Numbers on their way from one pace's slots to another's.

    ``run`` must be called once, by anybody; ``done`` is set when ``slots`` hold all.
    """

    slots: Slots
    run: Action
    done: threading.Event
