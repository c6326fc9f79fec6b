"""What only the coordinator's process knows of how the job stands: itself, and its disk.

Waits for nothing. Any thread may call.
"""

import os
import socket

from msgspec import structs

from paceline.ids import COORDINATOR
from paceline.messages.shared import Message
from paceline.messages.watching import JobStatus, LauncherOrders, ProcessStatus, Trouble


def with_self(
    status: JobStatus, trouble: Trouble | None = None, events_lost: int = 0
) -> JobStatus:
    """A status with the coordinator's own process, and the trouble of its disk, in it."""
    me = ProcessStatus(
        role="coordinator",
        id=COORDINATOR,
        incarnation=0,
        pid=os.getpid(),
        host=socket.gethostname(),
        address="",
        state=status.state,
        clock=0,
        records=status.records,
    )
    return structs.replace(
        status,
        processes=(me, *status.processes),
        trouble=trouble or status.trouble,
        events_lost=events_lost,
    )


def completed(message: JobStatus | LauncherOrders, events_lost: int) -> Message:
    """An answer with what is to be added to the status that is in it."""
    if isinstance(message, JobStatus):
        return with_self(message, events_lost=events_lost)
    status = structs.replace(message.status, events_lost=events_lost)
    return structs.replace(message, status=status)
