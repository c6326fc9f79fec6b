"""A window's way to all servers and to the coordinator, and the values' way back.

Pure.
"""

from collections.abc import Callable
from typing import NamedTuple

from paceline.ids import Window
from paceline.messages import Pull, Push, Pushed, Tick, Ticked
from paceline.trainer.asking import Act, Asking
from paceline.trainer.parts import SharedPart


class Acknowledged(NamedTuple):
    """A window that all servers and the coordinator have acknowledged."""

    window: Window
    ticked: Ticked


def push_window(
    asking: Asking,
    part: SharedPart,
    servers: tuple[str, ...],
    advance: Callable[[Window], tuple[int, ...]],
    *,
    ends_step: bool,
    wants_lease: bool,
) -> Act[Acknowledged]:
    """Push a part's open window to all servers, then tick, until both have counted.

    ``advance`` is told once that all servers have acknowledged the window, and says how
    far its tasks are.
    """
    window, records = part.window.close()
    part.number += 1
    part.pushed(sum(span.last - span.first + 1 for span in window.spans))
    pushed = yield from asking.ask_servers(
        dict.fromkeys(
            servers,
            Push(
                **asking.who(),
                part=part.spec.part,
                number=part.number,
                window=window,
                records=records,
                round=part.round if part.is_sync else None,
            ),
        )
    )
    is_prepared = any(
        isinstance(reply, Pushed) and reply.verdict == "prepared"
        for reply in pushed.values()
    )
    ticked = yield from asking.ask(
        Tick(
            **asking.who(),
            part=part.spec.part,
            number=part.number,
            window=window,
            records=records,
            acked=advance(window),
            round=part.round if part.is_sync else None,
            is_prepared=is_prepared,
            ends_step=ends_step,
            next_lease=wants_lease,
        )
    )
    assert isinstance(ticked, Ticked)
    return Acknowledged(window, ticked)


def pull_part(
    asking: Asking, part: SharedPart, servers: tuple[str, ...], at_round: int
) -> Act[None]:
    """Fetch a part's dense values from all servers, as of ``at_round`` or later."""
    pull = Pull(**asking.who(), part=part.spec.part, at_round=at_round)
    yield from asking.ask_servers(dict.fromkeys(servers, pull))
    part.pulled(at_round)
