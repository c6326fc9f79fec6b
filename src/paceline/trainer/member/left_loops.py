"""The end of a loop that was left early: a cut that holds what was stepped in it.

A loop is left by ``break``, or by an exception, and nothing tells which. So what was
stepped is pushed and the rest handed back at once, but the loop has ended only when the
script goes on, with its next call::

    any call, nothing being handled   the script goes on: the loop is over for this trainer
    any call in an except block       answered; the loop is not over
    any call of an atexit function    the same, if the script has failed
    close, the end of the process     what was stepped is in a cut; the loop is not over
    a failure on its way out          as any death: others, and a successor, go on with it

A loop that is not over goes on in others, in a successor, or in a resumed job.

Pure.
"""

from paceline.trainer.acts import Act
from paceline.trainer.protocol import LOST_BEFORE_BREAK, TrainerProtocol


def end_loop(protocol: TrainerProtocol, *, goes_on: bool) -> Act[None]:
    """If the script has left a loop, wait for a cut that holds what was stepped in it.

    ``goes_on``: the loop is over for this trainer; else the trainer goes.
    """
    since = protocol.behind.take_left()
    if since is None or protocol.must_begin_again is not None:
        return
    if protocol.leaving is not None:
        return
    assert protocol.stage is not None, "it has left a loop"
    stage = protocol.stage.stage
    left = stage if goes_on else None

    def wait_cut() -> Act[int | None]:
        # What is asked for after a return would end a loop that all go on with.
        if protocol.joined and protocol.joined.returned > since:
            return None
        return (yield from protocol.wait_cut(-1 - stage, left))

    cut = yield from protocol.as_member(wait_cut)
    if cut is None or (protocol.joined and protocol.joined.returned > since):
        protocol.must_begin_again = f"{LOST_BEFORE_BREAK}: all have returned to a cut"
        return
    protocol.behind.went_on_from(cut)


def is_failure(error: BaseException | None) -> bool:
    """Whether a script that ends with this has failed; `SystemExit` may deny it."""
    if isinstance(error, SystemExit):
        return error.code not in {None, 0}
    return error is not None
