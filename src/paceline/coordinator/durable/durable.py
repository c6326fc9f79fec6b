"""The state that survives, and `restore`: the only place that changes it.

Live code and recovery call the same `restore(state, outcome)`, so that a restarted
coordinator is the same coordinator; a compacted journal begins with the whole state.

Pure.
"""

from collections.abc import Callable
from typing import Any, final

import msgspec

from paceline.coordinator.durable import outcomes as o
from paceline.coordinator.durable.queue import (
    LeaseRecord,
    Queue,
    StageResults,
    decode_queue,
)
from paceline.coordinator.durable.records import CutRecord, PartRecord
from paceline.ids import TaskKey
from paceline.messages.shared import PartSpec, StageSpec


@final
class Durable(msgspec.Struct):
    """All that a restarted coordinator knows.

    ``repaced`` is not None if the timeline began with a change of pace, by which servers
    that still stand on the one before take over what they have; it says of which parts
    without the state of optimizers.
    """

    run: str = ""  # id of the run that it belongs to; a resumed job has a new one
    next_incarnation: int = 1
    next_token: int = 1
    next_cut: int = 0
    generation: int = 0
    timeline: int = 0
    returned: int = 0  # the timeline of the last return to a cut
    repaced: tuple[int, ...] | None = None  # see below
    trainers: dict[str, int] = {}  # {trainer id: live incarnation}
    servers: dict[str, int] = {}  # {server id: live incarnation}
    left: set[str] = set()  # trainers that went cleanly
    has_started: bool = False
    late_pushes: int = 0  # that came when their round was closed
    late_records: int = 0  # in them
    round_records: int = 0  # acknowledged, with those of the last round
    wanted_trainers: int = 0  # by `paceline scale`; 0: as the job was started
    parts: dict[int, PartRecord] = {}
    stages: dict[int, StageSpec] = {}
    queue: Queue = msgspec.field(default_factory=Queue)
    mid_step: set[int] = set()  # incarnations between two parts of one step
    settling: dict[int, tuple[TaskKey, ...]] = {}  # {lost incarnation: its tasks}
    steps: dict[int, dict[int, int]] = {}  # {incarnation: {part: push of its last step}}
    resumes: dict[TaskKey, o.Resume] = {}
    is_returning: bool = False
    cut: CutRecord | None = None
    undone: list[tuple[int, int]] = []  # first and last number of cuts that were skipped
    is_end_kept: bool = False  # what is kept is the state that the last stage ended with
    tracked: int = 0  # number of the tracked state that counts; 0: that of the cut
    once: dict[str, str] = {}  # {name: trainer id}
    stopped: str | None = None
    broken: str | None = None

    def incarnations(self) -> dict[int, str]:
        """Live incarnations and whose they are."""
        members = [*self.trainers.items(), *self.servers.items()]
        return {incarnation: role for role, incarnation in members}

    def stage_spec(self) -> StageSpec | None:
        """The data of the current stage, once a trainer has told it."""
        return self.stages.get(self.queue.stage)

    def last_cut(self) -> int:
        """Number of the last committed cut; -1 before the first."""
        return -1 if self.cut is None else self.cut.cut

    def is_over(self, key: TaskKey) -> bool:
        """Whether a task is done or given up, as the queue stands."""
        epoch, now = (key.stage, key.epoch), (self.queue.stage, self.queue.epoch)
        return epoch < now or (epoch == now and self.queue.is_done(key.task))

    def trained(self) -> dict[int, PartSpec]:
        """{part: what it is}, ascending, of all but those that have ended."""
        plans = [record.plan for _, record in sorted(self.parts.items())]
        return {plan.spec.part: plan.spec for plan in plans if not plan.has_ended}

    def committed_rounds(self) -> dict[int, int]:
        """{part: last committed round}."""
        return {part: record.round for part, record in self.parts.items()}


KEPT_ROUNDS = 2  # a contributor to round r has pulled round r - 1 from every server


def _trainer_joined(outcome: o.TrainerJoined, state: Durable) -> None:
    state.trainers[outcome.trainer] = outcome.incarnation
    state.left.discard(outcome.trainer)
    state.next_incarnation = outcome.incarnation + 1
    state.generation += 1


def _server_joined(outcome: o.ServerJoined, state: Durable) -> None:
    state.servers[outcome.server] = outcome.incarnation
    state.next_incarnation = outcome.incarnation + 1
    state.generation += 1


def _trainer_lost(outcome: o.TrainerLost, state: Durable) -> None:
    _forget_trainer(outcome.trainer, outcome.incarnation, state)
    queue = state.queue
    records = dict(sorted(queue.held_by(outcome.incarnation).items()))
    held = list(records)
    uploads = [p for p in state.parts.values() if p.uploader == outcome.incarnation]
    for part in uploads:
        part.uploader = 0
    if held or uploads or outcome.has_set:  # something may be on its way to a server
        keys = tuple(record.lease.key for record in records.values())
        state.settling[outcome.incarnation] = keys
        for task in held:
            queue.take_back(task)
    if outcome.kind == "expired":
        for task in held:
            queue.timeouts[task] = queue.timeouts.get(task, 0) + 1
    if outcome.kind == "crashed":
        queue.count_crash(held)


def _state_kept(outcome: o.StateKept, state: Durable) -> None:
    state.tracked = outcome.number
    state.is_end_kept = False


def _tasks_crashed(outcome: o.TasksCrashed, state: Durable) -> None:
    now = (state.queue.stage, state.queue.epoch)
    state.queue.count_crash(k.task for k in outcome.keys if (k.stage, k.epoch) == now)


def _scaled(outcome: o.Scaled, state: Durable) -> None:
    state.wanted_trainers = outcome.trainers


def _trainer_left(outcome: o.TrainerLeft, state: Durable) -> None:
    _forget_trainer(outcome.trainer, outcome.incarnation, state)
    if outcome.is_done:
        state.left.add(outcome.trainer)


def _forget_trainer(trainer: str, incarnation: int, state: Durable) -> None:
    state.trainers.pop(trainer, None)
    state.mid_step.discard(incarnation)
    if any(part.has_own_rows() for part in state.parts.values()):
        state.settling[incarnation] = ()  # its locks are let go, its last step is whole
    for part in state.parts.values():
        part.counted.pop(incarnation, None)
    state.generation += 1


def _part_planned(outcome: o.PartPlanned, state: Durable) -> None:
    state.parts[outcome.plan.spec.part] = PartRecord(outcome.plan)


def _upload_granted(outcome: o.UploadGranted, state: Durable) -> None:
    state.parts[outcome.part].uploader = outcome.incarnation


def _part_ready(outcome: o.PartReady, state: Durable) -> None:
    part = state.parts[outcome.part]
    part.is_ready, part.uploader = True, 0


def _part_ended(outcome: o.PartEnded, state: Durable) -> None:
    part = state.parts[outcome.part]
    part.plan = msgspec.structs.replace(part.plan, has_ended=True)


def _stage_registered(outcome: o.StageRegistered, state: Durable) -> None:
    state.stages[outcome.spec.stage] = outcome.spec


def _lease_granted(outcome: o.LeaseGranted, state: Durable) -> None:
    lease, queue = outcome.lease, state.queue
    task = lease.key.task
    state.has_started = True
    state.next_token = lease.token + 1
    if not queue.held_by(outcome.incarnation):
        state.mid_step.discard(outcome.incarnation)
    queue.lend(task, LeaseRecord(lease, outcome.trainer, outcome.incarnation))
    spec = state.stage_spec()
    if spec is not None and spec.rotation is not None:
        queue.keepers[spec.rotation.cell_of(task)[0]] = outcome.trainer


def _task_done(outcome: o.TaskDone, state: Durable) -> None:
    queue, task = state.queue, outcome.key.task
    queue.close(task)
    queue.tasks_done += 1
    queue.records += outcome.records
    if outcome.result is not None or outcome.kept is not None:
        results = queue.results.setdefault(outcome.key.stage, StageResults())
        results.note(task, outcome.result, outcome.kept)
    state.resumes.pop(outcome.key, None)


def _stage_valued(outcome: o.StageValued, state: Durable) -> None:
    value = outcome.value if outcome.kept is None else None
    state.queue.results[outcome.stage] = StageResults(
        value=value, missing=outcome.missing, kept=outcome.kept
    )


def _task_returned(outcome: o.TaskReturned, state: Durable) -> None:
    task = outcome.key.task
    state.queue.put_back(task)
    resume = o.Resume(outcome.key, outcome.first, outcome.edges, outcome.voids)
    state.resumes[outcome.key] = resume
    if outcome.is_carried:
        state.queue.visits[task] = state.queue.visits.get(task, 0) + 1
    if outcome.failed:
        state.queue.failures[task] = state.queue.failures.get(task, 0) + 1


def _task_failed(outcome: o.TaskFailed, state: Durable) -> None:
    queue = state.queue
    queue.failed.add(outcome.key.task)
    queue.close(outcome.key.task)
    queue.tasks_failed += 1
    queue.records += outcome.records


def _marks_settled(outcome: o.MarksSettled, state: Durable) -> None:
    state.steps.pop(outcome.incarnation, None)
    for key in state.settling.pop(outcome.incarnation, ()):
        state.queue.put_back(key.task)
    for resume in outcome.resumes:
        state.resumes[resume.key] = resume


def _epoch_ended(outcome: o.EpochEnded, state: Durable) -> None:
    state.queue.next_epoch()
    now = (outcome.stage, outcome.epoch)
    state.resumes = {k: r for k, r in state.resumes.items() if (k.stage, k.epoch) > now}


def _round_committed(outcome: o.RoundCommitted, state: Durable) -> None:
    part = state.parts[outcome.part]
    part.round, state.round_records = outcome.round, outcome.records
    part.recent = [*part.recent[1 - KEPT_ROUNDS :], outcome]
    for one in outcome.contributions:
        part.counted[one.incarnation] = one.number
    state.mid_step.difference_update(outcome.ticked)
    state.mid_step.update(outcome.mid_step)


def _step_committed(outcome: o.StepCommitted, state: Durable) -> None:
    state.steps.setdefault(outcome.incarnation, {}).update(outcome.pushes)


def _push_late(outcome: o.PushLate, state: Durable) -> None:
    state.late_pushes += 1
    state.late_records += outcome.records


def _cut_begun(outcome: o.CutBegun, state: Durable) -> None:
    state.next_cut = outcome.cut + 1


def _cut_committed(outcome: o.CutCommitted, state: Durable) -> None:
    state.cut = CutRecord.of(outcome)
    if outcome.ends_stage:
        before, state.queue = state.queue, decode_queue(outcome.queue)
        state.queue.keep_values(before)
        state.resumes = {}
        state.is_end_kept = True


def _server_lost(outcome: o.ServerLost, state: Durable) -> None:
    state.servers.pop(outcome.server, None)
    state.generation += 1
    _return_to_cut(state, outcome.timeline)


def _cut_skipped(outcome: o.CutSkipped, state: Durable) -> None:
    restore(outcome.instead, state)
    state.undone = [*state.undone, (outcome.instead.cut + 1, state.next_cut - 1)]
    state.parts = {plan.spec.part: PartRecord(plan) for plan in outcome.plans}
    _return_to_cut(state, outcome.timeline)


def _run_begun(outcome: o.RunBegun, state: Durable) -> None:
    state.run = outcome.run
    state.wanted_trainers = 0
    if outcome.timeline == 0:
        return
    if outcome.cut is not None:
        restore(outcome.cut, state)
        state.next_cut = max(state.next_cut, outcome.cut.cut + 1)
    else:
        state.cut = None
    state.trainers, state.servers = {}, {}
    state.generation += 1
    state.has_started = False
    state.stopped = state.broken = None
    state.undone = []
    state.once = {name: role for name, role in state.once.items() if role in state.left}
    state.parts = {plan.spec.part: PartRecord(plan) for plan in outcome.plans}
    _return_to_cut(state, outcome.timeline)


def _return_to_cut(state: Durable, timeline: int) -> None:
    """The queue and all parts stand where the last cut has them."""
    state.timeline = state.returned = timeline
    state.repaced = None
    state.tracked = 0
    state.mid_step = set()
    state.settling, state.steps, state.resumes = {}, {}, {}
    state.is_returning = True
    cut = state.cut
    before = state.queue
    state.queue = decode_queue(cut.queue) if cut is not None else Queue()
    state.queue.reopen()
    state.queue.keep_values(before)
    state.is_end_kept = state.queue.was_end_kept
    rounds = cut.rounds if cut is not None else {}
    state.parts = {
        part: PartRecord(record.plan, is_ready=True, round=rounds.get(part, 0))
        for part, record in state.parts.items()
        if cut is not None and part in cut.parts
    }


def _pace_changed(outcome: o.PaceChanged, state: Durable) -> None:
    state.timeline, state.repaced = outcome.timeline, outcome.without_state
    state.mid_step, state.round_records = set(), outcome.records
    for plan in outcome.plans:
        state.parts[plan.spec.part].plan = plan
    for record in state.parts.values():
        record.recent, record.counted = [], {}


def _marks_restored(outcome: o.MarksRestored, state: Durable) -> None:
    state.is_returning = False
    state.resumes = {resume.key: resume for resume in outcome.resumes}


def _once_claimed(outcome: o.OnceClaimed, state: Durable) -> None:
    state.once[outcome.name] = outcome.trainer


def _stop_requested(outcome: o.StopRequested, state: Durable) -> None:
    state.stopped = outcome.reason


def _job_broken(outcome: o.JobBroken, state: Durable) -> None:
    state.broken = outcome.reason


_RESTORED: dict[type[o.Outcome], Callable[[Any, Durable], None]] = {
    o.TrainerJoined: _trainer_joined,
    o.ServerJoined: _server_joined,
    o.TrainerLost: _trainer_lost,
    o.StateKept: _state_kept,
    o.TasksCrashed: _tasks_crashed,
    o.Scaled: _scaled,
    o.TrainerLeft: _trainer_left,
    o.PartPlanned: _part_planned,
    o.UploadGranted: _upload_granted,
    o.PartReady: _part_ready,
    o.PartEnded: _part_ended,
    o.StageRegistered: _stage_registered,
    o.LeaseGranted: _lease_granted,
    o.TaskDone: _task_done,
    o.StageValued: _stage_valued,
    o.TaskReturned: _task_returned,
    o.TaskFailed: _task_failed,
    o.MarksSettled: _marks_settled,
    o.EpochEnded: _epoch_ended,
    o.RoundCommitted: _round_committed,
    o.StepCommitted: _step_committed,
    o.PushLate: _push_late,
    o.CutBegun: _cut_begun,
    o.CutCommitted: _cut_committed,
    o.ServerLost: _server_lost,
    o.TimelineLeft: lambda left, state: _return_to_cut(state, left.timeline),
    o.CutSkipped: _cut_skipped,
    o.RunBegun: _run_begun,
    o.PaceChanged: _pace_changed,
    o.MarksRestored: _marks_restored,
    o.OnceClaimed: _once_claimed,
    o.StopRequested: _stop_requested,
    o.ValuesTaken: lambda taken, state: state.queue.note_values(taken),
    o.JobBroken: _job_broken,
}


def restore(outcome: o.Outcome, state: Durable) -> None:
    """Change the state as an outcome says."""
    _RESTORED[type(outcome)](outcome, state)
