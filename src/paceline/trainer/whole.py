"""Steps of several tables that have their effect together or not at all.

Waits: for servers and coordinator, as a step does. The thread of the user's script calls.
"""

from collections.abc import Mapping

from paceline.trainer.carrier import Carrier
from paceline.trainer.parts import Writing
from paceline.trainer.verdicts import Stepped


def step_whole(carrier: Carrier, tokens: Mapping[int, Mapping[str, int]]) -> Stepped:
    """The batch in the user's hands is over for these tables: what was written leaves.

    It is there on all servers, for all of them, or nowhere, whoever dies.

    Args:
        carrier: of the trainer.
        tokens: {part: {server: token of the lock that its rows are written under}}; without
            locks, nothing for a part.

    Returns:
        What became of the step; ``dropped`` if the batch is gone.

    Raises:
        Refused: a lock was lost (``lock_lost``); nothing was written, and the batch is in
            the user's hands as before.
    """
    protocol = carrier.protocol
    *beside, last = tokens
    for part in tokens:
        protocol.parts[part].writing = Writing(tokens[part], ())
    protocol.parts[last].writing = Writing(tokens[last], tuple(beside))
    try:
        if not protocol.must_join:
            for part in beside:
                numbers = carrier.numbers[part]
                numbers.load(carrier.plan(part), with_step=True)
                protocol.parts[part].refused = numbers.refusal
        return carrier.step(last)
    finally:
        for part in tokens:
            protocol.parts[part].writing = None
            carrier.numbers[part].clear()
