"""What becomes of each thing that the coordinator decides, subject by subject.

::

    leases         grants, leases given back, tasks that are closed
    ticks          tasks go on or are done
    rounds         meetings, atomic steps, rounds that wait for each other
    pace_changes   at a moment when nothing is on its way; `auto`
    membership     who is heard, what a death means
    checkpoints    begun, committed, given up, unreadable; runs before this one
    tracked        the user's own objects; averages: of buffers
    values, results   who may replace values; what evaluations came to
    status         how the job stands, and what holds it up

Pure.
"""

from paceline.coordinator.decisions.averages import (
    buffers_at_end,
    buffers_kept,
    wait_for_buffers,
)
from paceline.coordinator.decisions.checkpoints import (
    Stored,
    begin_run,
    break_taken_over,
    commit_cut,
    cut_wait,
    fail_cut,
    look_at_cut,
    look_at_saves,
    look_at_unreadable,
    return_further,
    waits_for_cut,
)
from paceline.coordinator.decisions.leases import (
    choose_cell,
    finish_if_done,
    give_back,
    grant,
    grant_ahead,
    is_mid_step,
    may_grant,
    missing_from_ring,
    participants,
)
from paceline.coordinator.decisions.membership import (
    Asker,
    exited,
    is_heard,
    look_for_losses,
    lose,
    refuse,
    settle,
)
from paceline.coordinator.decisions.pace_changes import (
    govern,
    look_at_pace,
    pace_asked,
    saw_numbers,
    saw_wait,
    wait_for_pace,
)
from paceline.coordinator.decisions.results import answer_results
from paceline.coordinator.decisions.rounds import (
    look_at_meetings,
    look_at_standstill,
    look_at_steps,
    meet,
    peers_of,
    step_asked,
)
from paceline.coordinator.decisions.status import (
    count_records,
    job_status,
    pause_of_all,
    takers,
    wait_for_fences,
    wait_of_all,
)
from paceline.coordinator.decisions.ticks import reply_ticked, tick_asked, ticked
from paceline.coordinator.decisions.tracked import (
    is_tracked,
    must_return,
    state_at_end,
    tracked_kept,
    wait_for_state,
)
from paceline.coordinator.decisions.values import answer_claim, count_trainers, were_set

__all__ = [
    "Asker",
    "Stored",
    "answer_claim",
    "answer_results",
    "begin_run",
    "break_taken_over",
    "buffers_at_end",
    "buffers_kept",
    "choose_cell",
    "commit_cut",
    "count_records",
    "count_trainers",
    "cut_wait",
    "exited",
    "fail_cut",
    "finish_if_done",
    "give_back",
    "govern",
    "grant",
    "grant_ahead",
    "is_heard",
    "is_mid_step",
    "is_tracked",
    "job_status",
    "look_at_cut",
    "look_at_meetings",
    "look_at_pace",
    "look_at_saves",
    "look_at_standstill",
    "look_at_steps",
    "look_at_unreadable",
    "look_for_losses",
    "lose",
    "may_grant",
    "meet",
    "missing_from_ring",
    "must_return",
    "pace_asked",
    "participants",
    "pause_of_all",
    "peers_of",
    "refuse",
    "reply_ticked",
    "return_further",
    "saw_numbers",
    "saw_wait",
    "settle",
    "state_at_end",
    "step_asked",
    "takers",
    "tick_asked",
    "ticked",
    "tracked_kept",
    "wait_for_buffers",
    "wait_for_fences",
    "wait_for_pace",
    "wait_for_state",
    "wait_of_all",
    "waits_for_cut",
    "were_set",
]
