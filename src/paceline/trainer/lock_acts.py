"""How a trainer gets locks, and lets them go.

Servers are asked one after the other in ascending order, and each for all rows at once: so
nobody who has rows on one server waits for somebody who waits for these.

Pure.
"""

from collections.abc import Mapping

from paceline.errors import LockTimeout
from paceline.ids import OF_NO_BATCH
from paceline.messages import Lock, Locked, Message, Push, Unlock, Wait
from paceline.trainer.asking import FIRST_PAUSE_S, Act, Asking, Pause
from paceline.trainer.atomic import Pushes, push_together, under_locks
from paceline.trainer.parts import SharedPart, Writing


def take_locks(
    asking: Asking, locks: Mapping[str, Lock], timeout_s: float
) -> Act[dict[str, int]]:
    """Lock rows on all servers that have some.

    Args:
        asking: of the trainer.
        locks: {server: what is asked of it}.
        timeout_s: for all of them together.

    Returns:
        {server: token}.

    Raises:
        LockTimeout: others have had rows all the time; who. Nothing is locked.
    """
    since_s, until_s = asking.now_s, asking.now_s + timeout_s
    tokens: dict[str, int] = {}
    for server in sorted(locks):
        message = asking.current(locks[server])
        while True:
            reply = yield from asking.try_server(server, message, since_s)
            if isinstance(reply, Locked):
                tokens[server] = reply.token
                break
            if not isinstance(reply, Wait):
                reply = Wait("servers", f"{server} said {reply}", (server,))
            if asking.now_s >= until_s:
                yield from let_go(asking, locks)
                raise LockTimeout(
                    f"lock of {sum(locks[server].rows.counts)} rows on {server}: not had "
                    f"within {timeout_s:g} s, since {reply.reason}; lock fewer rows at "
                    f"a time, or give it more time by timeout_s"
                )
            yield Pause(FIRST_PAUSE_S, reply)
    return tokens


def let_go(asking: Asking, locks: Mapping[str, Lock]) -> Act[None]:
    """Let locks go, or the places in line for them."""
    messages: dict[str, Message] = {
        server: Unlock(**asking.who(), part=lock.part, number=lock.number)
        for server, lock in locks.items()
    }
    yield from asking.ask_servers(messages)


def push_alone_together(asking: Asking, parts: Mapping[SharedPart, Writing]) -> Act[None]:
    """Push what was written under locks and belongs to no batch, as one step, once.

    Raises:
        Refused: a lock was lost; nothing has had an effect.
    """
    pushes: list[Pushes] = []
    is_held = sum(len(writing.tokens) for writing in parts.values()) > 1
    for part, writing in parts.items():
        part.number += 1
        push = Push(
            **asking.who(),
            part=part.spec.part,
            number=part.number,
            window=OF_NO_BATCH,
            records=0,
        )
        to_all = dict.fromkeys(sorted(writing.tokens), push)
        pushes.append(under_locks(to_all, writing, is_held=is_held))
    yield from push_together(asking, pushes)
