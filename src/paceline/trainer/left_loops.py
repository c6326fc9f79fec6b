"""The end of a loop that was left early: a cut that holds what was stepped in it.

A loop is left by ``break``, or by an exception, and nothing tells which. So what was
stepped is pushed and the rest handed back at once, but the loop has ended only when the
script goes on: with its next call, or by ending well. A script that fails never comes to
it: others, and its successor, go on with the loop.

Pure.
"""

from paceline.trainer.asking import Act
from paceline.trainer.protocol import LOST_BEFORE_BREAK, TrainerProtocol


def end_loop(protocol: TrainerProtocol) -> Act[None]:
    """The script goes on; if it has left a loop, wait for the cut that ends it here."""
    since = protocol.behind.take_left()
    if since is None or protocol.must_begin_again is not None:
        return
    if protocol.leaving is not None:
        return
    assert protocol.stage is not None, "it has left a loop"
    left = protocol.stage.stage
    cut = yield from protocol.as_member(lambda: protocol.wait_cut(-1 - left, left))
    if protocol.joined and protocol.joined.returned > since:
        protocol.must_begin_again = f"{LOST_BEFORE_BREAK}: all have returned to a cut"
        return
    protocol.behind.went_on_from(cut)
