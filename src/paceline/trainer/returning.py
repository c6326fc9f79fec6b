"""Leases go back to the coordinator: worked on no further, or given up.

Pure.
"""

from paceline.ids import TaskKey
from paceline.messages import FailTask, HandBack
from paceline.trainer.asking import Act, Asking
from paceline.trainer.leases import Leases
from paceline.trainer.parts import SharedPart
from paceline.trainer.windows import OpenWindow


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
