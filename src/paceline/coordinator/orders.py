"""What a server does next, from the coordinator's state and the server's report.

Level-triggered: orders are computed anew for every report, so losing, repeating or
delaying reports and orders changes nothing. The order of the list matters: rounds are
committed before an incarnation that contributed to them is fenced, and before a
snapshot at those rounds.

Pure.
"""

from collections.abc import Container

from paceline.coordinator.cuts import OpenCut
from paceline.coordinator.durable import CutRecord, Durable, PartRecord
from paceline.coordinator.queue import decode_queue
from paceline.messages import (
    CommitRound,
    ConfirmTracked,
    CreatePart,
    EndPart,
    Fence,
    Forget,
    Order,
    PartReport,
    Restore,
    SendMarks,
    ServerReport,
    Snapshot,
    TakePaces,
)
from paceline.pace.policy import steps_locally


def plan_restore(state: Durable) -> Restore:
    """The order that brings a server to the last cut on the current timeline."""
    cut = state.cut
    if cut is None:
        return Restore(
            timeline=state.timeline, cut=0, folder=None, plans=(), files=(), rounds={}
        )
    return Restore(
        timeline=state.timeline,
        cut=cut.cut,
        folder=cut.folder,
        plans=tuple(state.parts[part].plan for part in cut.parts),
        files=tuple(entry for entries in cut.files.values() for entry in entries),
        rounds=cut.rounds,
        without_state=tuple(
            part
            for part in cut.parts
            for plan in [state.parts[part].plan]
            if plan.has_ended or (part in cut.outer) != steps_locally(plan.spec.pace)
        ),
    )


def _plan_entry(state: Durable, report: ServerReport) -> Restore | TakePaces:
    """The order that brings a server on to the current timeline."""
    is_behind = report.timeline == state.timeline - 1
    if state.repaced is None or not is_behind or not report.ready:
        return plan_restore(state)
    plans = tuple(record.plan for _, record in sorted(state.parts.items()))
    without_state = state.repaced
    return TakePaces(
        timeline=state.timeline,
        plans=plans,
        without_state=without_state,
        steps=state.steps,
    )


def plan_orders(
    state: Durable,
    report: ServerReport,
    *,
    open_cut: OpenCut | None,
    fenced: Container[int],
    has_marks: bool,
) -> tuple[Order, ...]:
    """Orders for the server that sent ``report``.

    Args:
        state: the durable state.
        report: how the server stands.
        open_cut: the cut being taken, if any.
        fenced: lost incarnations that this server has reported as fenced.
        has_marks: whether this server has sent its marks after the last return.
    """
    if report.timeline != state.timeline:
        return (_plan_entry(state, report),)
    if not report.ready:
        return ()
    orders: list[Order] = []
    for part, record in sorted(state.parts.items()):
        orders += _plan_part(record, report.parts.get(part))
    if state.cut is not None and report.forgotten_cut < state.cut.cut:
        orders.append(plan_forget(state.cut))
    if state.is_returning and not has_marks:
        orders.append(SendMarks())  # of open tasks only, since the others are forgotten
    orders += _plan_fences(state, fenced)
    is_keeper = report.server == min(state.servers, default="")
    if is_keeper and state.tracked not in {0, report.tracked}:
        orders.append(ConfirmTracked(number=state.tracked))
    if open_cut is not None and open_cut.awaits(report.server):
        orders.append(
            Snapshot(
                cut=open_cut.cut,
                folder=open_cut.folder,
                rounds=open_cut.rounds,
                steps=open_cut.steps,
            )
        )
    return tuple(orders)


def _plan_part(record: PartRecord, stands: PartReport | None) -> list[Order]:
    part, orders = record.plan.spec.part, list[Order]()
    if stands is None:
        orders.append(CreatePart(plan=record.plan))
    elif record.plan.has_ended and not stands.has_ended:
        orders.append(EndPart(part=part))
    applied = stands.applied_round if stands is not None else 0
    return orders + [
        CommitRound(part=part, round=r.round, contributions=r.contributions)
        for r in record.recent
        if applied < r.round <= record.round
    ]


def _plan_fences(state: Durable, fenced: Container[int]) -> list[Fence]:
    if not state.settling:
        return []
    rounds, steps = state.committed_rounds(), state.steps
    return [
        Fence(incarnation=i, keys=keys, rounds=rounds, step=steps.get(i, {}))
        for i, keys in sorted(state.settling.items())
        if i not in fenced
    ]


def plan_forget(cut: CutRecord) -> Forget:
    """The marks that a committed cut makes superfluous."""
    queue = decode_queue(cut.queue)
    kept = tuple(sorted(queue.open | queue.failed))
    stage, epoch, below = queue.stage, queue.epoch, queue.next_fresh
    return Forget(cut=cut.cut, stage=stage, epoch=epoch, below=below, kept=kept)
