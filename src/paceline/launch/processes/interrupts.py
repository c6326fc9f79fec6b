"""Being asked to stop: Ctrl-C, SIGTERM, a closed terminal.

What is ignored when the block is entered stays ignored, and so it is for every process that
is started meanwhile: ``nohup`` has a hang-up ignored, a shell Ctrl-C for what it runs in
the background. SIGTERM is caught all the same: schedulers end a job by it.

The launcher looks at `Interrupts.count` in its loop instead of being thrown out of it: so
it always ends its children itself. Once asks for an orderly end, twice for an end at
once.

Waits: for nothing. Signals reach the main thread only; elsewhere nothing is caught.
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, final

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class Interrupts:
    """Counts requests to stop while the ``with`` block runs."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}  # Any: as the signal module has it

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in CAUGHT:
                is_ignored = signal.getsignal(number) is signal.SIG_IGN
                if is_ignored and number is not signal.SIGTERM:
                    continue
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.count += 1
