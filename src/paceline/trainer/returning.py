"""Leases go back to the coordinator: worked on no further, or given up.

Pure.
"""

from paceline.config import Combine
from paceline.ids import TaskKey
from paceline.messages import FailTask, HandBack
from paceline.trainer.asking import Act, Asking
from paceline.trainer.leases import Leases
from paceline.trainer.parts import SharedPart
from paceline.trainer.windows import OpenWindow


def drop_unstepped(parts: dict[int, SharedPart]) -> None:
    """What was delivered and stepped over by no part belongs to no window.

    A batch that one part has stepped over counts in those that were not stepped, too: they
    have nothing of it. Of the user's own tables every batch is written when it is over.
    """
    newest = min((part.window.num_delivered() for part in parts.values()), default=0)
    for part in parts.values():
        tables = part.spec.tables
        if not any(isinstance(table.optimizer, Combine) for table in tables):
            part.stepped += part.window.step(but=newest)
        part.window.drop_delivered()


def hand_back(asking: Asking, leases: Leases, parts: dict[int, SharedPart]) -> Act[None]:
    """Give all leases back; nothing of them is on its way, what is open is dropped."""
    held = leases.held(tuple(parts))
    if held:
        tokens, acked = zip(*held, strict=True)
        yield from asking.ask(HandBack(**asking.who(), tokens=tokens, acked=acked))
    leases.clear()
    for part in parts.values():
        part.window = OpenWindow()


def give_up(
    asking: Asking,
    leases: Leases,
    parts: dict[int, SharedPart],
    key: TaskKey,
    error: str,
) -> Act[None]:
    """Give one task up, if it is held: its data cannot be read."""
    work = leases.drop(key)
    if work is not None:
        token, acked = work.lease.token, work.acked(tuple(parts))
        yield from asking.ask(
            FailTask(**asking.who(), token=token, acked=acked, error=error)
        )
