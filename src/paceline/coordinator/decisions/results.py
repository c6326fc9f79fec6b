"""What evaluations and predictions come to: results of tasks, one value of a stage.

A result is counted with the end of its task, by the lease's token: a task that is worked
on again is never counted twice. Results lie in the queue, so that cuts, returns and a
resumed job have them with the tasks that they are of; the bytes of large ones lie beside
the cuts, and the queue says which (`paceline.coordinator.stored_values`). When the stage
is over, every trainer asks for all of them; the first value that comes is the value, and
takes their place.

Who may replace what the servers have by values that a script has changed.

::

    changed, and one trainer is here   its word is enough
    changed, and there are several     nobody's is, until all call `Session.set_values`
    n-th call of the script            the first that comes sets them for all; who comes
                                       later, or again, takes what the servers have

What was set before a loop, or by a call, is not set again by who begins at the top of the
script: it was trained since, and what is done twice may have twice its effect. Calls, and
the loop that values were set before last, are in the queue, so that a cut that has the
values says so.

Pure.
"""

from paceline.coordinator.decisions.leases import wait_for_fences
from paceline.coordinator.durable import Durable, StageResults, is_touched
from paceline.coordinator.durable.outcomes import StageValued, TaskDone, ValuesTaken
from paceline.coordinator.ledgers import (
    Book,
    Page,
    Reports,
    TrainersSeen,
)
from paceline.messages.results import (
    MAX_RESULT_BYTES,
    AskResults,
    FinishTask,
    KeepValue,
    KeptBytes,
    Results,
)
from paceline.messages.shared import Done, Message, Waiting
from paceline.messages.values import ClaimValues, ValuesClaimed, ValuesSet
from paceline.messages.waits import Wait, wait_for

STAGE_BYTES = 64 << 20  # of all results of a stage: they lie in the journal and in cuts


def finish_task(book: Book, message: FinishTask) -> Message:
    """Count a task and its result; the answer."""
    state, spec = book.durable, book.durable.stage_spec()
    held = state.queue.held_by(message.incarnation).values()
    record = next((one for one in held if one.lease.token == message.token), None)
    if record is None or spec is None:
        text = f"token {message.token} is no lease of incarnation {message.incarnation}"
        return book.refusal("stale", text)
    trouble = _trouble(state, spec.is_training, message)
    if trouble is not None:
        return book.refusal("invalid", trouble)
    result = message.result if message.kept is None else None
    book.commit(TaskDone(record.lease.key, 0, result, message.kept))
    book.progress.forget(spec, record.lease.key)
    book.deadlines.has_begun(message.incarnation)
    book.deadlines.goes_on(message.incarnation, state.queue, book.now)
    return Done()


def _trouble(state: Durable, is_training: bool, message: FinishTask) -> str | None:
    """Why a result cannot be counted."""
    stage = state.queue.stage
    if is_training:
        return f"stage {stage} is training: its tasks end with their last batch"
    results = state.queue.results.get(stage, StageResults())
    came, limit = _size(message.result, message.kept), MAX_RESULT_BYTES
    if came <= limit:
        came, limit = came + sum(map(results.bytes_of, results.tasks())), STAGE_BYTES
    if came <= limit:
        return None
    return (
        f"the state is too large: the results of stage {stage} have {came:,} bytes, the "
        f"limit is {limit:,}: the state of the metric grows with the records; bound it "
        "(torchmetrics' curves take thresholds=), or evaluate fewer records"
    )


def page_of_results(state: Durable, message: AskResults) -> Results:
    """The value of a stage, or as many of its results as one answer holds."""
    results = state.queue.results.get(message.stage, StageResults())
    if results.has_value():
        return Results(value=results.value, missing=results.missing, kept=results.kept)
    page: dict[int, bytes] = {}
    kept: dict[int, KeptBytes] = {}
    free = MAX_RESULT_BYTES
    for task in results.tasks():
        if task < message.first:
            continue
        free -= results.bytes_of(task)
        if (page or kept) and free < 0:
            return Results(states=page, following=task, kept_states=kept)
        if task in results.kept_states:
            kept[task] = results.kept_states[task]
        else:
            page[task] = results.states[task]
    return Results(states=page, missing=_missing(state, message.stage), kept_states=kept)


def keep_value(page: Page, message: KeepValue) -> Message:
    """Keep the first value that comes for a stage; the one that is kept."""
    state = page.durable
    if message.stage >= state.queue.stage:
        text = f"stage {message.stage} is not over: its results may be not all there"
        return page.refusal("invalid", text)
    came = _size(message.value, message.kept)
    if came > MAX_RESULT_BYTES:
        text = f"a value of {came:,} bytes is too large, the limit is {MAX_RESULT_BYTES:,}"
        return page.refusal("invalid", text)
    results = state.queue.results.get(message.stage)
    if results is None or not results.has_value():
        missing = _missing(state, message.stage)
        page.commit(StageValued(message.stage, message.value, missing, message.kept))
    asked = AskResults(incarnation=0, timeline=0, stage=message.stage)
    return page_of_results(state, asked)


def _missing(state: Durable, stage: int) -> int:
    """Tasks of a stage without a result."""
    spec = state.stages.get(stage)
    results = state.queue.results.get(stage, StageResults())
    return 0 if spec is None else spec.num_tasks() - len(results.tasks())


def _size(data: bytes, kept: KeptBytes | None) -> int:
    return len(data) if kept is None else kept.bytes


def answer_claim(
    page: Page, seen: TrainersSeen, servers: Reports, message: ClaimValues
) -> Message:
    """Whether the asker sets the values, and the reason it waits for if it must."""
    state, asker = page.durable, message.incarnation
    if seen.setter not in state.trainers.values():
        seen.setter = 0
    trainers = count_trainers(page)
    is_done = _is_done(page.durable, message)
    if is_done and seen.setter in {0, asker}:
        seen.setter = 0
        return ValuesClaimed(verdict="done", trainers=trainers)
    if not message.call and not is_done and trainers > 1:
        return ValuesClaimed(verdict="several", trainers=trainers)
    if (wait := _wait_to_set(page, seen, servers, asker)) is not None:
        return Waiting(wait=wait)
    seen.setter = asker
    return ValuesClaimed(verdict="yours", trainers=trainers)


def were_set(page: Page, seen: TrainersSeen, message: ValuesSet) -> Message:
    """All servers have the values: the next cut says so; or it is over with that."""
    queue = page.durable.queue
    if message.call > queue.values_set:
        page.commit(ValuesTaken(message.call))
    elif message.stage is not None:
        setter = message.incarnation
        page.commit(ValuesTaken(queue.values_set, stage=message.stage, setter=setter))
    elif not message.call and seen.setter == message.incarnation:
        seen.setter = 0
    return Done()


def count_trainers(page: Page) -> int:
    """Trainers that are here, or that the job's first lease waits for."""
    live = len(page.durable.trainers)
    return live if page.durable.has_started else max(live, page.first_trainers())


def _is_done(state: Durable, message: ClaimValues) -> bool:
    if message.call:
        return message.call <= state.queue.values_set
    if message.stage is None:
        return False
    queue = state.queue
    if message.stage == queue.values_stage and message.incarnation == queue.values_setter:
        return False  # the same script, which could not begin the loop after all
    is_passed = message.stage < queue.stage or message.stage <= queue.values_stage
    return is_passed or (message.stage == queue.stage and is_touched(state))


def _wait_to_set(
    page: Page, seen: TrainersSeen, servers: Reports, asker: int
) -> Wait | None:
    state = page.durable
    if seen.setter not in {0, asker}:
        names = {incarnation: name for name, incarnation in state.trainers.items()}
        setter = names[seen.setter]
        return wait_for("values", f"{setter} sets the values of all", [setter])
    if state.settling:
        return wait_for_fences(page, servers)
    return None
