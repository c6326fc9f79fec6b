"""What becomes of each thing that the coordinator decides, subject by subject.

::

    leases         grants, what holds them up, tasks that are closed; given_back
    ticks          tasks go on or are done
    rounds         meetings, atomic steps, rounds that wait for each other
    pace_changes   at a moment when nothing is on its way; `auto`
    membership     who is heard, what a death means
    checkpoints    begun, committed, given up, unreadable; runs before this one
    tracked        the user's own objects; averages: of buffers
    values, results   who may replace values; what evaluations came to
    status         how the job stands

Pure.
"""

from paceline.coordinator.decisions.averages import (
    buffers_at_end,
    buffers_kept,
    wait_for_kept,
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
from paceline.coordinator.decisions.given_back import give_back
from paceline.coordinator.decisions.leases import (
    choose_cell,
    finish_if_done,
    grant,
    grant_ahead,
    is_mid_step,
    may_grant,
    missing_from_ring,
    participants,
    takers,
    wait_for_fences,
    wait_of_all,
)
from paceline.coordinator.decisions.membership import exited, look_for_losses, lose, settle
from paceline.coordinator.decisions.pace_changes import (
    govern,
    look_at_pace,
    pace_asked,
    saw_numbers,
    saw_wait,
    wait_for_pace,
)
from paceline.coordinator.decisions.results import finish_task, keep_value, page_of_results
from paceline.coordinator.decisions.rounds import (
    look_at_meetings,
    look_at_standstill,
    look_at_steps,
    meet,
    peers_of,
    step_asked,
)
from paceline.coordinator.decisions.status import job_status
from paceline.coordinator.decisions.ticks import reply_ticked, tick_asked, ticked
from paceline.coordinator.decisions.tracked import (
    is_tracked,
    must_return,
    state_at_end,
    tracked_kept,
)
from paceline.coordinator.decisions.values import answer_claim, count_trainers, were_set

__all__ = [
    "Stored",
    "answer_claim",
    "begin_run",
    "break_taken_over",
    "buffers_at_end",
    "buffers_kept",
    "choose_cell",
    "commit_cut",
    "count_trainers",
    "cut_wait",
    "exited",
    "fail_cut",
    "finish_if_done",
    "finish_task",
    "give_back",
    "govern",
    "grant",
    "grant_ahead",
    "is_mid_step",
    "is_tracked",
    "job_status",
    "keep_value",
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
    "page_of_results",
    "participants",
    "peers_of",
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
    "wait_for_fences",
    "wait_for_kept",
    "wait_for_pace",
    "wait_of_all",
    "waits_for_cut",
    "were_set",
]
