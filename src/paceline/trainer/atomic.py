"""Steps over several servers and tables that have their effect together or not at all.

::

    held        every server has every push of the step, and says so
    committed   the coordinator has journalled the step
    applied     every server lets it have its effect, and lets its locks go

Who dies before the second has changed nothing, anywhere; who dies behind it has changed
everything: the order that fences it carries the step to whoever has not applied it yet.

A step that goes to one server alone needs nobody's word: the last of its pushes says which
they are, and the server applies all of them in one breath.

Pure.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from paceline.errors import Refused
from paceline.messages import ApplyStep, CommitStep, Message, Push, Pushed
from paceline.trainer.asking import Act, Asking, Posted
from paceline.trainer.parts import Writing

Pushes = Mapping[str, Message]  # {server: its push}


def under_locks(pushes: Pushes, writing: Writing, *, is_held: bool) -> dict[str, Message]:
    """The same pushes, each with the token of its server's lock, held if need be."""
    return {
        server: replace(push, token=writing.tokens.get(server), is_held=is_held)
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
    posted: list[Posted] = []
    for of_part in _completing(pushes, servers, step):
        posted.append((yield from asking.post(of_part)))  # noqa: PERF401  (it yields)
    replies: list[Mapping[str, Message]] = []
    refused: Refused | None = None
    for one in posted:
        try:
            replies.append((yield from asking.collect(one)).replies)
        except Refused as why:
            refused = refused or why
    if refused is not None:
        drop = ApplyStep(**asking.who(), pushes=step, is_dropped=True)
        yield from asking.ask_servers(dict.fromkeys(servers, drop))
        raise refused
    if holders := _holders(replies):
        yield from asking.ask(CommitStep(**asking.who(), pushes=step))
        apply = ApplyStep(**asking.who(), pushes=step)
        yield from asking.ask_servers(dict.fromkeys(holders, apply))


def _completing(
    pushes: Sequence[Pushes], servers: Sequence[str], step: Mapping[int, int]
) -> list[dict[str, Message]]:
    """All pushes; to one server alone, the last one says that the step is there."""
    leaving = [dict(of_part) for of_part in pushes]
    if len(servers) == 1 and len(pushes) > 1:
        whole = {"completes": dict(step)}
        leaving[-1] = {s: replace(push, **whole) for s, push in leaving[-1].items()}
    return leaving


def _holders(replies: Sequence[Mapping[str, Message]]) -> list[str]:
    """Servers that hold any of the pushes still."""
    held = {s for of_part in replies for s, r in of_part.items() if _said(r, "held")}
    done = {s for s, r in replies[-1].items() if _said(r, "applied")}
    return sorted(held - done)


def _each(pushes: Sequence[Pushes]) -> list[Push]:
    return [push for part in pushes for push in part.values() if isinstance(push, Push)]


def _said(reply: Message, verdict: str) -> bool:
    return isinstance(reply, Pushed) and reply.verdict == verdict
