"""What cannot be written: said when it begins, while it lasts, and when it works again.

Lines of their own: a bar crops what is longer than the terminal is wide.

Pure: time is an argument.
"""

from typing import final

from paceline.messages.watching import Trouble

AGAIN_S = 10.0


@final
class Troubles:
    """What was said of it."""

    def __init__(self) -> None:
        self._journal: Trouble | None = None
        self._checkpoint: Trouble | None = None
        self._again_s = 0.0  # when what lasts is said again

    def note(self, trouble: Trouble | None, now: float) -> list[str]:
        """Take note of how it stands; what is to be said of it.

        While the journal cannot be written, nothing is known of checkpoints.
        """
        said = self._changed(trouble)
        if trouble is not None and not said and now >= self._again_s:
            said.append(trouble.text)
        if said:
            self._again_s = now + AGAIN_S
        return said

    def _changed(self, trouble: Trouble | None) -> list[str]:
        said = []
        if trouble is not None and trouble.kind == "journal":
            if self._journal is None:
                said.append(trouble.text)
            self._journal = trouble
            return said
        if self._journal is not None:
            disk = f" of {self._journal.place}" if self._journal.place else ""
            said.append(f"there is space on the disk{disk} again: the job goes on")
            self._journal = None
        if self._checkpoint is None and trouble is not None:
            said.append(trouble.text)
        elif self._checkpoint is not None and trouble is None:
            said.append("checkpoints are written again")
        self._checkpoint = trouble
        return said
