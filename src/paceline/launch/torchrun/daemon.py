"""What a machine of torchrun has beside its trainers: one process, which outlives restarts.

::

    python -P -m paceline.launch.torchrun.daemon    stdin: `Birth`

    it listens for guests, and holds the lock that it was born with
    `part`: it leads a job, or joins the one that another machine leads
    then it tells how the job has ended to all who come, until torchrun has gone

It is in a session of its own: torchrun ends its processes by their groups at each change of
its machines, and servers are not to end then. When torchrun and all guests are gone for a
while, it ends by itself, and a job that it leads with a checkpoint.

What it says goes to where torchrun's own lines go.

Waits: for the job's end, and torchrun's. The main thread.
"""

import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import final

import msgspec

from paceline.errors import Interrupted, PacelineError
from paceline.launch.guests import Arrive, GuestHall, JobOver
from paceline.launch.processes import name_process
from paceline.launch.torchrun.coming import DOOR, LED, LOCK, Birth
from paceline.launch.torchrun.found import OF_ONE_PROCESS
from paceline.launch.torchrun.part import TakingPart
from paceline.launch.torchrun.wishes import read_wishes, refusal, told_to_go_on
from paceline.timing import SystemClock
from paceline.watch.progress import Lines

ALONE_S = 60.0  # torchrun may be started again on this machine, and join its job
ENDED_S = 2.0  # one that is not elastic is never the same again


@final
class _Output(io.StringIO):
    """Standard error, whose reader may be gone: it ends when torchrun does."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            os.write(2, text.encode(errors="replace"))
        return len(text)


def main() -> None:
    """Take part until torchrun has gone."""
    birth = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Birth)
    folder, script, torchrun, wish = birth
    name_process("paceline-host")
    clock, output, door = SystemClock(), _Output(), Path(folder) / DOOR
    sys.stdout = sys.stderr = output
    led = door.with_name(LED)
    alone_s = ALONE_S if torchrun.is_elastic else ENDED_S
    wishes, show = read_wishes(os.environ, torchrun), Lines(output, "paceline: ")

    def refuses(arrive: Arrive) -> str:
        return refusal(arrive, torchrun, wish, script.named, alone_s)

    def greets(arrive: Arrive) -> str:
        return told_to_go_on(arrive, torchrun, script.named)

    hall = GuestHall(door, clock, alone_s, _end_this, refuses, greets)
    try:
        servers = {n: v for n, v in os.environ.items() if n not in OF_ONE_PROCESS}
        part = TakingPart(torchrun, wishes, script, servers, led, hall, show, clock)
        hall.end(_wait_over(part))
        hall.wait_left()
    finally:
        hall.close()
        with suppress(OSError):  # while the lock is held: who comes next makes all anew
            for path in (door, led, door.with_name(LOCK)):
                path.unlink(missing_ok=True)
            door.parent.rmdir()


def _end_this() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_over(part: TakingPart) -> JobOver:
    try:
        return part.wait_over()
    except (PacelineError, Interrupted) as error:
        text = str(error)
    part.show.say(text)
    return JobOver(text, 1)


if __name__ == "__main__":
    main()
