"""What the journal keeps, and how it is read again.

::

    outcomes     the lines of the journal
    durable      what they add up to; `restore` alone changes it
    queue        todo, pending, done, failed
    records      what is known of parts and the last cut
    rotation     which cell is next
    placement    parts to slots to servers
    recovery     marks to where a task goes on
    stops        what a stop leaves to do
    happenings   outcomes as lines of the event log

Pure.
"""

from paceline.coordinator.durable.durable import KEPT_ROUNDS, Durable, restore
from paceline.coordinator.durable.happenings import closed_of, progress_of, told
from paceline.coordinator.durable.placement import keep_paces, place_again, plan_part
from paceline.coordinator.durable.queue import (
    Queue,
    StageResults,
    decode_queue,
    encode_queue,
)
from paceline.coordinator.durable.records import CutRecord, PartRecord
from paceline.coordinator.durable.recovery import decide_resumes, join_marks, join_voids
from paceline.coordinator.durable.rotation import Choice, decide_cell
from paceline.coordinator.durable.stops import (
    has_nothing_to_train,
    is_stopped_before,
    is_touched,
    open_stage,
)
