"""Where a pull and a push of a job's trainer spend their microseconds.

::

    copied from the server's memory     a pull that needs no question
    copied into, out of the mailbox     memory that both share, of a question or its reply
    Pull: send                          encoding and writing of that question, no copy
    Pull: wait for the reply            the server's work, and both wake-ups
    decide                              all else that the trainer does

One thread's own time, counted at seams in a run that nothing else is read from: looking
costs a few microseconds a call.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

import paceline
from benchmarks.harness.phases import PhaseClock
from benchmarks.harness.watching import WatchedConnection
from paceline.params.published import ValuesReader
from paceline.transport.mailbox import Outgoing

DECIDE = "decide"
INTO_MAILBOX = "copied into the mailbox"
LOOP = {"AskLease", "BeginStage"}  # asked between steps
WARM = 0.2  # not counted, as a share
REST = "the rest"  # what the clock calls time outside of every phase


@contextmanager
def watched_transport(clock: PhaseClock) -> Iterator[None]:
    """Count the seams meanwhile; connections must be watched (`watching.watched`)."""

    def sent(_: WatchedConnection, message: object, *__: object) -> str:
        return f"{type(message).__name__}: send"

    def waited(connection: WatchedConnection, number: int, *_: object) -> str:
        return f"{connection.kind_of(number)}: wait for the reply"

    seams: tuple[tuple[Any, str, str | Callable[..., str]], ...] = (
        (ValuesReader, "read_into", "copied from the server's memory"),
        (Outgoing, "put", INTO_MAILBOX),
        (Outgoing, "take", "copied out of the mailbox"),
        (WatchedConnection, "submit", sent),
        (WatchedConnection, "wait_reply", waited),
    )
    with ExitStack() as stack:
        for owner, name, phase in seams:
            stack.enter_context(clock.wrapped(owner, name, phase))
        yield


def phases_us(act: Callable[[PhaseClock], int]) -> dict[str, float]:
    """What repeated acts spend, each: {phase: microseconds}.

    Args:
        act: does it some times, inside of the clock's phase `DECIDE`; returns how often.
    """
    clock = PhaseClock()
    with watched_transport(clock):
        times = act(clock)
    spent = {name: s for name, s in clock.seconds().items() if name != REST}
    return {name: 1e6 * seconds / times for name, seconds in spent.items()}


def step_phases(
    session: paceline.Session,
    model: nn.ParameterList,
    optimizer: torch.optim.Optimizer,
    steps: int,
) -> dict[str, float]:
    """Of a step with nothing to compute: its push, its tick and its pull."""
    gradient = torch.ones_like(model[0])
    warm = round(WARM * steps)

    def act(clock: PhaseClock) -> int:
        batches = session.batches(torch.zeros(steps, 1), 1, shuffle=False)
        for number, _ in enumerate(batches):
            if number == warm:
                clock.restart()
            model[0].grad = gradient
            with clock.phase(DECIDE):
                optimizer.step()
        return steps - warm

    found = phases_us(act)
    return {name: spent for name, spent in found.items() if name.split(":")[0] not in LOOP}


def push_of(phases: Mapping[str, float]) -> dict[str, float]:
    """What of a step is the push: sent, copied, acknowledged."""
    return {
        name: spent
        for name, spent in phases.items()
        if name == INTO_MAILBOX or name.startswith("Push:")
    }
