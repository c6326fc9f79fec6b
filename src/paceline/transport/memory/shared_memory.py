"""Whether processes of one host may share memory; their user may say no.

``PACELINE_SHARED_MEMORY=off`` has everything travel through sockets: where memory that
several processes see counts more than once against a limit, or to compare. What it says
is looked at when a connection or a part is made.

Waits for nothing. Any thread.
"""

import os
from collections.abc import Mapping

from paceline.errors import UsageError

SHARED_MEMORY = "PACELINE_SHARED_MEMORY"


def may_share_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user lets processes share memory.

    Raises:
        UsageError: the variable is neither ``on`` nor ``off``.
    """
    chosen = environ.get(SHARED_MEMORY, "on")
    if chosen not in {"on", "off"}:
        raise UsageError(
            f"{SHARED_MEMORY}: expected 'on' or 'off', got {chosen!r}; unset it to share "
            "memory where that can be done"
        )
    return chosen == "on"
