"""The pace of a running job changes: at a moment when nothing is on its way.

::

    asked for     refused at once, with the reason, if the parts cannot have it
    paused        nothing is leased; who holds a lease gives it back before its next batch
    quiet         no lease, no fence, no open cut; all rounds are applied everywhere,
                  tracked objects are kept
    `PaceChanged` journalled, and a new timeline: what is still on its way is refused
    taken over    servers enter the timeline with all they have, trainers join again and
                  read their plans; then work goes on

What was wished is not durable, so that a coordinator that dies before the journal's line
has changed nothing: whoever asked asks again. A server that is lost meanwhile brings all
back to the last cut, under the paces that hold now.

Parts at the pace `auto`: what the coordinator sees of the job, and lets be done.

It knows by itself who waits for whom: a tick that waits for its round, a question that
waits for the slowest. What the script logs, trainers tell it. All parts at `auto` take
their steps together, by the options of the first.

Not durable: a restarted coordinator begins to look anew.

Pure.
"""

from collections.abc import Mapping

import msgspec

from paceline.config import Auto, Pace
from paceline.coordinator.decisions.checkpoints import is_stage_over
from paceline.coordinator.decisions.leases import pause_of_all, wait_of_all
from paceline.coordinator.decisions.membership import leave_timeline
from paceline.coordinator.decisions.tracked import may_cut, wait_for_state
from paceline.coordinator.durable import Durable
from paceline.coordinator.durable.outcomes import PaceChanged
from paceline.coordinator.ledgers import (
    NOT_TRAINING,
    Asker,
    Book,
    PaceWish,
    Page,
    Parked,
    Reports,
)
from paceline.messages.shared import Done, PartSpec
from paceline.messages.trainer import MayGoOn, Tick
from paceline.messages.waits import Wait
from paceline.messages.watching import ChangePace
from paceline.pace.auto import Governor
from paceline.pace.changing import has_pace, why_not_change, with_pace
from paceline.pace.guards import why_not_shared
from paceline.pace.policy import steps_locally, updates_in_rounds
from paceline.pace.tables import is_table
from paceline.parking import PARK_S


def saw_wait(page: Page, governor: Governor | None, parked: Parked) -> None:
    """A question is answered now that has waited since it was parked."""
    if governor is not None and isinstance(parked.message, Tick | MayGoOn):
        governor.waited(page.now - (parked.until_s - PARK_S))


def saw_numbers(governor: Governor | None, numbers: Mapping[str, float | None]) -> None:
    """A script has logged numbers."""
    if governor is not None and governor.auto.watch in numbers:
        governor.logged(numbers[governor.auto.watch])


def why_no_pace(book: Book) -> str | None:
    """Why no part can have another pace any more; None if one can."""
    state = book.durable
    if state.broken is not None or book.is_finishing:
        return "the job is over"
    if state.stopped is not None or book.cutting.is_saving:
        return f"the job is being stopped: {state.stopped or 'its launcher ends the run'}"
    if book.config.ranks_per_trainer > 1:
        return "trainers of several processes keep the pace that they began with"
    return None


def govern(book: Book) -> None:
    """Time has passed: let the pace change by a step, if there is reason to."""
    parts = _governed(book.durable)
    if not parts:
        book.governor = None
        return
    auto = parts[min(parts)].auto
    assert auto is not None
    governor = book.governor
    if governor is None or governor.auto != auto:
        governor = book.governor = Governor(auto, book.now)
    holders = book.durable.queue.num_holders() if book.is_training() else 0
    governor.passed(book.now, holders)
    if book.wish is not None or why_no_pace(book) is not None or not holders:
        return
    change = governor.decide(book.now, parts[min(parts)].pace)
    if change is None:
        return
    paces = dict.fromkeys(parts, change.pace)
    if why_not_change(book.durable.trained().values(), paces) is None:
        reason = f"auto: {change.reason}"
        book.wish = PaceWish(paces, reason, is_auto=True, since_s=book.now)


def _governed(state: Durable) -> dict[int, PartSpec]:
    specs = state.trained()
    return {part: spec for part, spec in specs.items() if isinstance(spec.auto, Auto)}


ASKED = "asked for"


def pace_asked(book: Book, asker: Asker, message: ChangePace) -> None:
    """Let parts have another pace, once that can be; refuse it now if it never can."""
    state, ticket = book.durable, asker.ticket
    refused = why_no_pace(book) or (_why_no_part(state, message) if state.parts else None)
    if refused is not None:
        book.refuse(ticket, "invalid", refused)
        return
    paces = _wanted(state, message)
    if state.parts and not paces:
        book.reply(ticket, Done())
        return
    if book.wish is not None and book.wish.paces != paces:
        text = f"{described(book.wish.paces)} is on its way; ask again when it is done"
        book.refuse(ticket, "invalid", text)
        return
    reason = why_not_change(state.trained().values(), paces) or _why_not_round(
        book.durable, paces
    )
    for pace in paces.values():
        reason = reason or why_not_shared(pace, book.config.ranks_per_trainer)
    if reason is not None:
        book.refuse(ticket, "invalid", reason)
        return
    if book.wish is None and paces:
        book.wish = PaceWish(paces, ASKED, since_s=book.now)
    # Each time that it is asked for has its own ticket.
    since_s = None if book.wish is None else book.wish.since_s
    book.park(book.questions.paces, ticket, asker, message, since_s=since_s)


def look_at_pace(book: Book) -> None:
    """Change the pace if all is quiet; answer whoever has waited for it."""
    state = book.durable
    never = why_no_pace(book)
    if never is not None:
        book.wish = None
    elif book.wish is not None and _is_quiet(book):
        wished, book.wish = book.wish, None
        reason = why_not_change(state.trained().values(), wished.paces)  # a part may be new
        if reason is None and _why_not_round(book.durable, wished.paces) is None:
            _change(book, wished)
    for ticket, parked in book.questions.paces.to_look_at(
        (book.wish, state.timeline, never)
    ):
        message = parked.message
        assert isinstance(message, ChangePace)
        if never is not None:
            book.questions.paces.take(ticket)
            book.refuse(ticket, "invalid", never)
        elif state.parts and not (_why_no_part(state, message) or _wanted(state, message)):
            book.questions.paces.take(ticket)
            book.reply(ticket, Done())


def wait_for_pace(book: Book) -> Wait:
    """What a change of pace waits for."""
    state = book.durable
    if not state.has_started or not book.is_training():
        return Wait("pace", NOT_TRAINING)
    pause = pause_of_all(book)
    if pause is None:
        return Wait("pace", "the pace is about to change")
    other = wait_of_all(book, for_pace=True) or wait_for_state(book.durable, book.keeping)
    if other is None:
        return pause
    whom, more = (pause.whom, pause.more) if pause.whom else (other.whom, other.more)
    return Wait("pace", f"{pause.reason}; {other.reason}", whom, more)


def described(paces: dict[int, Pace]) -> str:
    """A change, as it is told."""
    told = {str(pace) for pace in paces.values()}
    if len(told) == 1:
        return f"a change to {told.pop()}"
    each = ", ".join(f"part {part} {pace}" for part, pace in sorted(paces.items()))
    return f"a change to {each}"


def _why_no_part(state: Durable, message: ChangePace) -> str | None:
    if not message.part or _find(state, message.part) is not None:
        return None
    parts = ", ".join(f"{n} ({_name(state, n)})" for n in state.trained())
    return f"there is no part {message.part!r}; the job has {parts}"


def _why_not_round(state: Durable, paces: dict[int, Pace]) -> str | None:
    """Why a table whose blocks go round cannot have its new pace; None if it can."""
    spec = state.stage_spec()
    rotating = None if spec is None or spec.rotation is None else spec.rotation.table
    pace = paces.get(-1 if rotating is None else rotating)
    if rotating is None or pace is None or not updates_in_rounds(pace):
        return None
    return (
        f"blocks of {_name(state, rotating)!r} go round in this loop, and with "
        f"{pace} one would go on before its rows are there: use async, or ask again when "
        f"the loop is over"
    )


def _find(state: Durable, name: str) -> int | None:
    for part, spec in state.trained().items():
        names = [*(table.name for table in spec.tables), str(part)]
        names += [name for parameter in spec.parameters for name in parameter.names]
        if name in names:
            return part
    return None


def _name(state: Durable, part: int) -> str:
    spec = state.parts[part].plan.spec
    names = [*(p.names[0] for p in spec.parameters), *(t.name for t in spec.tables)]
    return names[0] + (", ..." if len(names) > 1 else "")


def _wanted(state: Durable, message: ChangePace) -> dict[int, Pace]:
    """{part: pace} of those that do not have it yet.

    A table has the pace that its algorithm was written for, not the job's: one that is
    not named keeps it, unless there is nothing else.
    """
    specs = state.trained()
    meant = {part for part, spec in specs.items() if not is_table(spec)} or set(specs)
    if message.part:
        meant = {part for part in [_find(state, message.part)] if part is not None}
    return {
        part: message.pace
        for part, spec in specs.items()
        if part in meant and not has_pace(spec, message.pace)
    }


def _is_quiet(book: Book) -> bool:
    state = book.durable
    if not book.pauses() or state.queue.pending or state.settling:
        return False
    if wait_of_all(book, for_pace=True) is not None or book.cutting.open is not None:
        return False
    if is_stage_over(book.durable, book.seen):
        return False
    if not _is_all_applied(book.durable, book.servers):
        return False
    return may_cut(book, book.keeping, book.questions)


def _is_all_applied(state: Durable, servers: Reports) -> bool:
    """Whether every server has told that it has applied all committed rounds."""
    rounds = state.committed_rounds()
    return all(
        part in report.parts and report.parts[part].applied_round >= number
        for report in servers.reports.values()
        for part, number in rounds.items()
    )


def _change(book: Book, wished: PaceWish) -> None:
    state = book.durable
    before = {part: state.parts[part].plan.spec.pace for part in wished.paces}
    plans = tuple(
        msgspec.structs.replace(
            record.plan, spec=with_pace(record.plan.spec, pace, is_auto=wished.is_auto)
        )
        for part, pace in sorted(wished.paces.items())
        for record in [state.parts[part]]
    )
    after = {plan.spec.part: plan.spec.pace for plan in plans}
    # Another optimizer steps at the servers, and its state begins anew.
    anew = [p for p in after if steps_locally(before[p]) != steps_locally(after[p])]
    changed = PaceChanged(
        state.timeline + 1,
        plans,
        {part: str(pace) for part, pace in before.items()},
        {part: str(pace) for part, pace in after.items()},
        wished.reason,
        without_state=tuple(sorted(anew)),
        inner_dropped=tuple(part for part, pace in before.items() if steps_locally(pace)),
        records=book.count_records(),
    )
    leave_timeline(book, changed, "the pace changes")
