"""Steps over several servers and tables that have their effect together or not at all.

::

    held        every server has every push of the step, and says so
    committed   the coordinator has journalled the step
    applied     every server lets it have its effect, and lets its locks go

Who dies before the second has changed nothing, anywhere; who dies behind it has changed
everything: the order that fences it carries the step to whoever has not applied it yet. A
push that goes to one server alone, in one piece, is whole without being held.

Pure.
"""

from collections.abc import Mapping, Sequence

import msgspec

from paceline.errors import Refused
from paceline.messages import ApplyStep, CommitStep, Message, Push, Pushed
from paceline.trainer.asking import Act, Asking
from paceline.trainer.parts import Writing

Pushes = Mapping[str, Message]  # {server: its push}


def under_locks(pushes: Pushes, writing: Writing, *, is_held: bool) -> dict[str, Message]:
    """The same pushes, each with the token of its server's lock, held if need be."""
    return {
        server: msgspec.structs.replace(
            push, token=writing.tokens.get(server), is_held=is_held
        )
        for server, push in pushes.items()
    }


def push_together(asking: Asking, pushes: Sequence[Pushes]) -> Act[None]:
    """Push several parts' windows to all their servers as one step.

    Args:
        asking: of the trainer.
        pushes: of each part, `under_locks`; held if there is more than one in all.

    Raises:
        Refused: a lock was lost; nothing has had an effect, anywhere.
    """
    step = {push.part: push.number for push in _each(pushes)}
    servers = sorted({server for of_part in pushes for server in of_part})
    holders: set[str] = set()
    try:
        for of_part in pushes:
            replies = yield from asking.ask_servers(dict(of_part))
            holders |= {s for s, reply in replies.items() if _is_held(reply)}
    except Refused:
        drop = ApplyStep(**asking.who(), pushes=step, is_dropped=True)
        yield from asking.ask_servers(dict.fromkeys(servers, drop))
        raise
    if holders:
        yield from asking.ask(CommitStep(**asking.who(), pushes=step))
        apply = ApplyStep(**asking.who(), pushes=step)
        yield from asking.ask_servers(dict.fromkeys(sorted(holders), apply))


def _each(pushes: Sequence[Pushes]) -> list[Push]:
    return [push for part in pushes for push in part.values() if isinstance(push, Push)]


def _is_held(reply: Message) -> bool:
    return isinstance(reply, Pushed) and reply.verdict == "held"
