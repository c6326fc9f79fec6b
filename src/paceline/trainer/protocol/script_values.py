"""Values that the script has changed, on their way to all servers.

::

    outside of loops   claim --> send, count the call, a cut --> pull
                             --> done already                --> pull
    within one         claim --> send: the next step is taken on them

Between loops nothing brings a change back that a return to a cut has undone: so there is a
cut that has it, and says so, before the script goes on. Within a loop what was changed on a
timeline that is gone belongs to it, and is forgotten with it.

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from paceline.messages.data import Pushed
from paceline.messages.shared import Message, Waiting
from paceline.messages.values import ClaimValues, SetValues, ValuesClaimed, ValuesSet
from paceline.trainer.acts import FIRST_PAUSE_S, Act, Asking, Pause
from paceline.trainer.holdings import SharedPart
from paceline.trainer.protocol.protocol import TrainerProtocol
from paceline.trainer.protocol.pushing import pull_part

Changed = Mapping[int, frozenset[int]]  # {part: which of its parameters}

_SAVES_FROM = 1 << 40  # numbers of cuts that no call of `Session.save` has


def set_between(
    protocol: TrainerProtocol,
    changed: Changed,
    saves: Iterator[int],
    *,
    call: int,
    stage: int | None,
) -> Act[ValuesClaimed]:
    """Set values outside of loops, unless that was done; then values are the servers'.

    ``saves`` numbers the cuts that are taken for this. ``call``: the n-th of
    `Session.set_values`; 0: the script has only changed them. ``stage``: what the script is
    about to begin, if that is why.
    """
    asking = protocol.asking

    def act() -> Act[ValuesClaimed]:
        claimed = yield from _claim(asking, call, stage)
        if claimed.verdict == "several":
            return claimed
        parts, servers = protocol.parts, tuple(protocol.servers)
        if claimed.verdict == "yours":
            for part, parameters in sorted(changed.items()):
                yield from send_values(asking, parts[part], parameters)
            yield from asking.ask(ValuesSet(**asking.who(), call=call, stage=stage))
            yield from protocol.wait_cut(_SAVES_FROM + next(saves))
            yield from asking.ask(ValuesSet(**asking.who()))  # others go on from here
        for part in sorted(parts):
            yield from pull_part(asking, parts[part], servers, parts[part].base_round())
        return claimed

    return (yield from protocol.as_member(act))


def set_within(
    protocol: TrainerProtocol, changed: Changed, *, is_sent: bool = True
) -> Act[ValuesClaimed | Literal["gone"]]:
    """Set values in a loop, if this is the only trainer; or the timeline is gone.

    Without ``is_sent`` it is only asked for.
    """
    joined, asking = protocol.joined, protocol.asking

    def act() -> Act[ValuesClaimed | Literal["gone"]]:
        if protocol.joined is not joined:
            return "gone"
        claimed = yield from _claim(asking, 0, None)
        if claimed.verdict == "yours":
            for part, parameters in sorted(changed.items() if is_sent else ()):
                yield from send_values(asking, protocol.parts[part], parameters)
            yield from asking.ask(ValuesSet(**asking.who()))
        return claimed

    return (yield from protocol.as_member(act))


def send_values(asking: Asking, part: SharedPart, parameters: frozenset[int]) -> Act[None]:
    """Replace what servers have of some parameters by what is here."""
    assert part.plan is not None
    part.tag += 1
    slots: dict[str, list[int]] = {}  # {server: slots}
    for block in part.plan.blocks:
        if block.parameter in parameters:
            slots.setdefault(part.plan.placement[block.slot], []).append(block.slot)
    messages: dict[str, Message] = {
        server: SetValues(
            **asking.who(),
            part=part.spec.part,
            number=part.number,
            tag=part.tag,
            slots=tuple(sorted(own)),
            at_round=part.base_round(),
        )
        for server, own in slots.items()
    }
    replies = yield from asking.ask_servers(messages)
    for server, reply in replies.items():
        assert isinstance(reply, Pushed)
        part.have_set(server, reply.version)


def _claim(asking: Asking, call: int, stage: int | None) -> Act[ValuesClaimed]:
    while True:
        claim = ClaimValues(**asking.who(), call=call, stage=stage)
        reply = yield from asking.ask_once(claim)
        if isinstance(reply, ValuesClaimed):
            return reply
        assert isinstance(reply, Waiting)
        yield Pause(FIRST_PAUSE_S, reply.wait)
