"""Where a run went on with its job, in words, once.

::

    goes on from checkpoint 12 of 2026-11-24 10:15:31, 5,120 records
    passed over: .../cut-000013-t1/manifest.json: expected it to begin with ...

Pure, but for the time zone of the machine.
"""

from datetime import UTC, datetime
from typing import final

from paceline.messages.watching import JobStatus, Resumed


@final
class Beginning:
    """Tells it with the first status that knows it."""

    def __init__(self) -> None:
        self._is_told = False

    def told(self, status: JobStatus) -> list[str]:
        """Lines that are to be shown now."""
        if self._is_told or status.resumed is None:
            return []
        self._is_told = True
        passed_over = (f"passed over: {why}" for why in status.resumed.passed_over)
        return [_first_line(status.resumed), *passed_over]


def _first_line(resumed: Resumed) -> str:
    if resumed.cut is None:
        return "goes on without a checkpoint: none is there, so the job begins anew"
    moment = datetime.fromtimestamp(resumed.created, tz=UTC).astimezone()
    return (
        f"goes on from checkpoint {resumed.cut} of {moment:%Y-%m-%d %H:%M:%S}, "
        f"{resumed.records:,} records"
    )
