"""Where a trainer may be made to fail, by what it is about to say.

Waits for nothing. The acting thread.
"""

from collections.abc import Mapping

from paceline.failpoints import failpoint
from paceline.ids import COORDINATOR
from paceline.messages import ApplyStep, CommitStep, Message, Push, Tick


def fail_before(calls: Mapping[str, Message]) -> None:
    """Let the fault armed for these questions, {role: question}, happen if it is due."""
    asked = calls.get(COORDINATOR)
    if isinstance(asked, Tick):
        failpoint("trainer.before_tick")
        if asked.round is not None:
            failpoint("trainer.prepared")
    elif isinstance(asked, CommitStep):
        failpoint("trainer.held")
    elif any(isinstance(one, Push) and one.completes for one in calls.values()):
        failpoint("trainer.completing")
    elif any(isinstance(one, ApplyStep) and not one.is_dropped for one in calls.values()):
        failpoint("trainer.committed")
