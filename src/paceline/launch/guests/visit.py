"""A process comes to a host of a job, to be one of its trainers: the guest's side.

Waits: for a role, as long as the host is there, and says so; at the end for the job's, with
a bound. The thread of the user's script; another one for the host's end.
"""

import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import final

from paceline.errors import TransportError
from paceline.launch.guests.guest import is_readable
from paceline.launch.guests.talk import (
    FROM_HOST,
    Arrive,
    FromGuest,
    JobOver,
    Parted,
    ToldToLeave,
)
from paceline.transport.frames import CONTROL_LIMITS
from paceline.transport.streams import FrameChannel

TELL_EVERY_S = 30.0  # that a role is waited for
TELL_S = 10.0  # the end of the job is waited for
OVER_S = 60.0  # the others may finish, and the last checkpoint be taken


@final
class GuestVisit:
    """One process at its host, from when it comes until it ends."""

    def __init__(self, door: Path, arrive: Arrive) -> None:
        """Come, and say who comes.

        Raises:
            OSError: nobody is there (yet).
            PeerLost: who was there has gone.
        """
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.connect(str(door))
        except OSError:
            end.close()
            raise
        self._talking = threading.Lock()
        self._host = FrameChannel(end, FROM_HOST, CONTROL_LIMITS, "this machine's host")
        try:
            self._say(arrive)
        except TransportError:
            self.close()
            raise

    def close(self) -> None:
        """Hang up: for a host that has gone; a guest stays as long as its process."""
        self._host.close()

    def wait_place(
        self, say: Callable[[str], None], *, is_told: bool = True
    ) -> Mapping[str, str] | JobOver:
        """Wait for a role: the environment that names it; or how the job has ended.

        ``is_told``: what there is to say of it is said.

        Raises:
            PeerLost: the host has gone.
        """
        waited_s = 0.0
        while not is_readable(self._host, TELL_EVERY_S):
            waited_s += TELL_EVERY_S
            say(f"waiting for {waited_s:.0f} s for a role: the job has none free yet")
        try:
            answer = self._host.receive().message
        except TransportError:
            self.close()
            raise
        if isinstance(answer, JobOver):
            return answer
        if answer.said and is_told:
            say(answer.said)
        return answer.variables

    def watch(self, gone: Callable[[], None]) -> None:
        """From now on: ``gone`` is called, by a thread, if the host is there no more."""

        def wait_gone() -> None:
            poll = select.poll()
            poll.register(self._host, select.POLLRDHUP)
            poll.poll()
            gone()

        threading.Thread(target=wait_gone, name="paceline-host", daemon=True).start()

    def told_to_leave(self) -> None:
        """A signal has told this process to end; any thread."""
        with suppress(TransportError):
            self._say(ToldToLeave())

    def _say(self, message: FromGuest) -> None:
        with self._talking:
            self._host.send(message)

    def part(self, status: int, say: Callable[[str], None]) -> int:
        """Say how the script has ended, before the process does; the job's exit code.

        Who has done its work waits until the job has ended: what comes of it is written
        then. 0 if that is not known.
        """
        waits_s = (TELL_S, OVER_S - TELL_S) if status == 0 else (0.0,)
        with suppress(TransportError):
            self._say(Parted(status))
            for wait_s in waits_s:
                if is_readable(self._host, wait_s):
                    message = self._host.receive().message
                    return message.status if isinstance(message, JobOver) else 0
                if wait_s == TELL_S:
                    say("this trainer has done its work, and waits for the job to end")
        return 0
