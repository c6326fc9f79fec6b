"""A window's way to all servers and to the coordinator, and the values' way back.

::

    push ------------------> servers apply
    rows of the next batch, dense values: asked for behind the push, on the same way,
                             so that they are read after it
    acknowledged by all ---> tick

Who computes on meanwhile asks for the rows in the push itself; who waits finds out what to
ask for while servers apply.

Where a push may be too old, the server of its first slot is asked before all others: it
applies the push, or says that it has no effect, and then that holds for all.

Pure.
"""

from collections.abc import Callable

import msgspec

from paceline.ids import Window
from paceline.messages.data import Pull, PullRows, Push, Pushed
from paceline.messages.shared import Message, RefusedPush
from paceline.trainer.acts import Act, Asking, Collect, Post, SendPosted
from paceline.trainer.holdings import SharedPart

_OF_ROUNDS = {"prepared", "late"}
_REPEATED = "it had no effect when it was pushed first"

Coming = Callable[[], dict[str, Message]]
"""What to ask servers for, of the rows of the next batch; nothing where it is not known."""


class Acknowledged(msgspec.Struct, frozen=True):
    """A window that all servers have acknowledged.

    ``is_prepared``: it has its effect with its round, if it is in time; ``is_first``: no
    server had to be asked twice, so that what was asked behind the push was read after it.
    ``refused``: it has no effect, and why.
    """

    window: Window
    records: int
    is_prepared: bool
    is_first: bool
    refused: RefusedPush | None = None


class Flight(msgspec.Struct, frozen=True):
    """A push on its way, and what was asked behind it.

    ``push``: to whom it is on its way still, if to anybody. ``at_round``: what the dense
    values asked for will correspond to; None if none are.
    """

    message: Push
    refused: RefusedPush | None
    push: Post | None
    values: list[Post]
    at_round: int | None

    def servers(self) -> tuple[str, ...]:
        """All of them; in rounds a push goes to all at once, and nobody judges it."""
        assert self.push is not None
        return tuple(self.push.calls)


class LeavingWindow(msgspec.Struct, frozen=True):
    """A window that leaves: what each server gets, and why it has no effect, if so."""

    message: Push
    pushes: dict[str, Message]
    refused: RefusedPush | None

    def whole(self) -> Acknowledged:
        """It is on all servers, with its step."""
        window, records = self.message.window, self.message.records
        return Acknowledged(window, records, False, True, self.refused)


def close_window(
    asking: Asking,
    part: SharedPart,
    servers: tuple[str, ...],
    coming: Coming | None = None,
) -> LeavingWindow:
    """A part's open window for all servers, with what they are asked for behind it."""
    num_batches = part.window.num_batches(with_delivered=False)
    window, records = part.window.close()
    part.number += 1
    part.pushed(num_batches)
    bases: dict[str, int] = {}
    if not part.rules.is_sync:  # a round has no age
        bases, part.bases = part.bases, bases
    base = bases.get(servers[0]) if servers else None
    push = Push(
        incarnation=asking.incarnation,
        timeline=asking.timeline,
        part=part.spec.part,
        number=part.number,
        window=window,
        records=records,
        round=part.round if part.rules.is_sync else None,
        base=base,
        is_void=part.refused is not None or part.fate == "void",
    )
    refused = None
    if push.is_void:
        reason, norm = part.refused or (_REPEATED, None)
        refused = RefusedPush(push.number, window, records, reason, norm)
    part.refused = None
    pushes: dict[str, Message] = dict.fromkeys(servers, push)
    for server in servers[1:]:
        if (own := bases.get(server)) != base:
            pushes[server] = msgspec.structs.replace(push, base=own)
    for server, message in (coming() if coming is not None else {}).items():
        assert isinstance(message, PullRows)
        behind = msgspec.structs.replace(message, **asking.who())
        pushes[server] = msgspec.structs.replace(pushes[server], behind=behind)
    return LeavingWindow(push, pushes, refused)


def ask_judge(
    asking: Asking, leaving: LeavingWindow, judge: str
) -> Act[LeavingWindow | None]:
    """Push to the server that says if a window is too old: what is left for the others.

    None: it is, and its batches are to be trained again; no server has changed.
    """
    message, pushes = leaving.message, leaving.pushes
    first = msgspec.structs.replace(pushes[judge], is_judged=True)
    assert isinstance(first, Push)
    [pushed] = (yield from asking.ask_servers({judge: first})).values()
    assert isinstance(pushed, Pushed)
    if pushed.verdict == "again":
        return None
    others = {server: push for server, push in pushes.items() if server != judge}
    if pushed.verdict != "void":
        return LeavingWindow(message, others, leaving.refused)
    age = pushed.version - (first.base or 0)
    reason = f"it was computed on values {age} updates old"
    refused = RefusedPush(message.number, message.window, message.records, reason)
    replace = msgspec.structs.replace
    others = {server: replace(push, is_void=True) for server, push in others.items()}
    return LeavingWindow(message, others, refused)


def collect_push(asking: Asking, flight: Flight) -> Act[Acknowledged]:
    """Wait until all servers have acknowledged a window."""
    is_first, is_prepared = True, False
    if flight.push is not None:
        collected = yield from asking.collect(flight.push)
        is_first = collected.is_first
        for reply in collected.replies.values():
            if isinstance(reply, Pushed) and reply.verdict in _OF_ROUNDS:
                is_prepared = True
    push = flight.message
    return Acknowledged(push.window, push.records, is_prepared, is_first, flight.refused)


def post_values(
    asking: Asking,
    part: SharedPart,
    servers: tuple[str, ...],
    coming: Coming | None,
    *,
    at_round: int,
    with_dense: bool,
) -> Act[list[Post]]:
    """Ask for rows of the next batch, and for dense values, as of ``at_round`` or later.

    What was asked is in the order in which to wait for it.
    """
    posted: list[Post] = []
    rows: dict[str, Message] = {}
    if coming is not None:
        yield SendPosted()
        rows = {
            server: msgspec.structs.replace(message, **asking.who(), at_round=at_round)
            for server, message in coming().items()
        }
        if rows:
            posted.append(asking.post(rows))
    if at_round and not part.spec.parameters:
        # Nothing dense would come: rows that have come say that the round is applied.
        servers = tuple([server for server in servers if server not in rows])
    if with_dense and part.rules.has_values and servers:
        pull = Pull(
            incarnation=asking.incarnation,
            timeline=asking.timeline,
            part=part.spec.part,
            at_round=at_round,
        )
        posted.append(asking.post(dict.fromkeys(servers, pull)))
    # Without a round, dense values may be read while servers look for rows. In a round,
    # rows that have come say that the round is applied, and nobody has to be asked.
    return posted if at_round else posted[::-1]


def collect_values(
    asking: Asking, part: SharedPart, posted: list[Post], *, is_current: bool
) -> Act[None]:
    """Wait for values; those that may be of before the push are asked for again."""
    for one in posted:
        if is_current:
            part.took((yield from asking.collect(one)).replies)
        else:
            yield Collect(one)
            part.took((yield from asking.ask_servers(one.calls)))


def pull_part(
    asking: Asking, part: SharedPart, servers: tuple[str, ...], at_round: int
) -> Act[None]:
    """Fetch a part's dense values from all servers, as of ``at_round`` or later."""
    if part.rules.has_values:
        pull = Pull(**asking.who(), part=part.spec.part, at_round=at_round)
        part.took((yield from asking.ask_servers(dict.fromkeys(servers, pull))))
    part.pulled(at_round)
