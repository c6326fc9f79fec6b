"""Who may replace what the servers have by values that a script has changed.

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
from paceline.coordinator.durable import Durable, is_touched
from paceline.coordinator.durable.outcomes import ValuesTaken
from paceline.coordinator.ledgers import Page, Reports, TrainersSeen
from paceline.messages.shared import Done, Message, Waiting
from paceline.messages.values import ClaimValues, ValuesClaimed, ValuesSet
from paceline.messages.waits import Wait, wait_for


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
