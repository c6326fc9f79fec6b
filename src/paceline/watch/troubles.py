"""What cannot be written: said once when it begins, and once when it works again.

As long as it lasts, it is in every line of progress (`paceline.watch.pulse`).

Pure.
"""

from typing import final

from paceline.messages import Trouble


@final
class Troubles:
    """What was said of it."""

    def __init__(self) -> None:
        """All is well."""
        self._journal: Trouble | None = None
        self._checkpoint: Trouble | None = None

    def note(self, trouble: Trouble | None) -> list[str]:
        """Take note of how it stands; what is to be said of it.

        While the journal cannot be written, nothing is known of checkpoints.
        """
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
