"""A window's way to all servers and to the coordinator, and the values' way back.

::

    push ------------------> servers apply
    rows of the next batch, dense values: asked for behind the push, on the same way,
                             so that they are read after it
    acknowledged by all ---> tick

Who computes on meanwhile asks for the rows in the push itself; who waits finds out what to
ask for while servers apply.

Pure.
"""

from collections.abc import Callable

import msgspec

from paceline.ids import Window
from paceline.messages import Message, Pull, PullRows, Push, Pushed
from paceline.trainer.asking import Act, Asking, Collect, Posted
from paceline.trainer.parts import SharedPart

Coming = Callable[[], dict[str, Message]]
"""What to ask servers for, of the rows of the next batch; nothing where it is not known."""


def nothing_coming() -> dict[str, Message]:
    """No rows are asked for ahead."""
    return {}


class Acknowledged(msgspec.Struct, frozen=True):
    """A window that all servers have acknowledged.

    ``is_prepared``: it has its effect with its round, if it is in time; ``is_first``: no
    server had to be asked twice, so that what was asked behind the push was read after it.
    """

    window: Window
    records: int
    is_prepared: bool
    is_first: bool


class Flight(msgspec.Struct, frozen=True):
    """A push on its way, and what was asked behind it.

    ``at_round``: what the dense values asked for will correspond to; None if none are.
    """

    push: Posted
    values: list[Posted]
    at_round: int | None


def post_push(
    asking: Asking,
    part: SharedPart,
    servers: tuple[str, ...],
    coming: Coming = nothing_coming,
) -> Act[Posted]:
    """Send a part's open window to all servers, and what they are asked for behind it."""
    window, records = part.window.close()
    part.number += 1
    part.pushed(sum(span.last - span.first + 1 for span in window.spans))
    push = Push(
        incarnation=asking.incarnation,
        timeline=asking.timeline,
        part=part.spec.part,
        number=part.number,
        window=window,
        records=records,
        round=part.round if part.is_sync else None,
    )
    pushes: dict[str, Message] = dict.fromkeys(servers, push)
    for server, message in coming().items():
        assert isinstance(message, PullRows)
        behind = msgspec.structs.replace(message, **asking.who())
        pushes[server] = msgspec.structs.replace(push, behind=behind)
    return (yield from asking.post(pushes))


def collect_push(asking: Asking, posted: Posted) -> Act[Acknowledged]:
    """Wait until all servers have acknowledged a window."""
    replies, is_first = yield from asking.collect(posted)
    [push, *_] = posted.calls.values()
    assert isinstance(push, Push)
    is_prepared = any(
        isinstance(reply, Pushed) and reply.verdict in {"prepared", "late"}
        for reply in replies.values()
    )
    return Acknowledged(push.window, push.records, is_prepared, is_first)


def post_values(
    asking: Asking,
    part: SharedPart,
    servers: tuple[str, ...],
    coming: Coming,
    *,
    at_round: int,
    with_dense: bool,
) -> Act[list[Posted]]:
    """Ask for rows of the next batch, and for dense values, as of ``at_round`` or later.

    Returns:
        What was asked, in the order in which to wait for it.
    """
    rows: dict[str, Message] = {
        server: msgspec.structs.replace(message, **asking.who(), at_round=at_round)
        for server, message in coming().items()
    }
    posted = [(yield from asking.post(rows))] if rows else []
    if with_dense:
        pull = Pull(
            incarnation=asking.incarnation,
            timeline=asking.timeline,
            part=part.spec.part,
            at_round=at_round,
        )
        posted.append((yield from asking.post(dict.fromkeys(servers, pull))))
    # Without a round, dense values may be read while servers look for rows. In a round,
    # rows that have come say that the round is applied, and nobody has to be asked.
    return posted if at_round else posted[::-1]


def collect_values(asking: Asking, posted: list[Posted], *, is_current: bool) -> Act[None]:
    """Wait for values; those that may be of before the push are asked for again."""
    for one in posted:
        if is_current:
            yield from asking.collect(one)
        else:
            yield Collect(one)
            yield from asking.ask_servers(one.calls)


def pull_part(
    asking: Asking, part: SharedPart, servers: tuple[str, ...], at_round: int
) -> Act[None]:
    """Fetch a part's dense values from all servers, as of ``at_round`` or later."""
    pull = Pull(**asking.who(), part=part.spec.part, at_round=at_round)
    yield from asking.ask_servers(dict.fromkeys(servers, pull))
    part.pulled(at_round)
