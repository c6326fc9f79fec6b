"""What a page has asked of the job, and how far that is.

::

    {"ask": "scale", "trainers": 5}     as paceline scale
    {"ask": "pace", "pace": "ssp:3"}    as paceline pace
    {"ask": "checkpoint"}               as paceline checkpoint take
    {"ask": "interrupt"}                as paceline interrupt

Waits: one thread for each that is under way, until the job has done it, refuses, or is
over; it dies with the process. Of one kind there is one at a time.
"""

import secrets
import threading
from typing import Annotated, Any, Literal, final

import msgspec

from paceline.config import MOST_TRAINERS, parse_pace
from paceline.errors import UsageError
from paceline.launch.job import JobDir, JobDoor, call_until_done
from paceline.messages.shared import Message
from paceline.messages.trainer import Saved
from paceline.messages.watching import ChangePace, Interrupt, Scale, TakeCut
from paceline.timing import Clock

MOST_BYTES = 1024  # of what a page sends


class PageAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page asks for, as it sends it."""

    ask: Literal["scale", "pace", "checkpoint", "interrupt"]
    trainers: Annotated[int, msgspec.Meta(ge=0, le=MOST_TRAINERS)] = 0
    pace: str = ""

    def message(self) -> Message:
        """What is asked of the coordinator.

        Raises:
            UsageError: there is no such pace.
        """
        if self.ask == "scale":
            return Scale(trainers=self.trainers)
        if self.ask == "pace":
            return ChangePace(pace=parse_pace(self.pace))
        if self.ask == "checkpoint":
            return TakeCut(wish=secrets.token_hex(8))
        return Interrupt()

    def told(self) -> str:
        """How it is named."""
        return {
            "scale": f"{self.trainers} trainers",
            "pace": f"the pace {self.pace[:80]}",
            "checkpoint": "a checkpoint",
            "interrupt": "the end of this run",
        }[self.ask]


def parse_ask(body: bytes) -> PageAsk:
    """What a page has sent.

    Raises:
        UsageError: it is not one of the above.
    """
    if len(body) > MOST_BYTES:
        raise UsageError(f"expected at most {MOST_BYTES} bytes, got {len(body)}")
    try:
        return msgspec.json.decode(body, type=PageAsk)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"expected what a page asks for, as JSON: {error}") from error


@final
class JobAsks:
    """Asks a job for what its page wants."""

    def __init__(self, job: JobDir | JobDoor, clock: Clock) -> None:
        self._job, self._clock = job, clock
        self._lock = threading.Lock()
        self._told: dict[str, dict[str, Any]] = {}  # {kind: how far}, the oldest first

    def ask(self, asked: PageAsk) -> None:
        """Begin to ask; what becomes of it is told.

        Raises:
            UsageError: one of this kind is under way.
        """
        with self._lock:
            before = self._told.get(asked.ask)
            if before is not None and before["state"] == "waits":
                raise UsageError(f"{before['text']} is under way: {before['reason']}")
            told = {"text": asked.told(), "state": "waits", "reason": "the job is asked"}
            self._told[asked.ask] = told
        threading.Thread(
            target=self._wait_done, args=(asked,), name="paceline-asks", daemon=True
        ).start()

    def told(self) -> list[dict[str, Any]]:
        """How far each is: ``text``, ``state`` (waits, done, refused) and ``reason``."""
        with self._lock:
            return [dict(one) for one in self._told.values()]

    def _wait_done(self, asked: PageAsk) -> None:
        def waits(reason: str) -> None:
            self._note(asked.ask, "waits", reason)

        try:
            answer = call_until_done(self._job, asked.message(), self._clock, waits)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told)
            self._note(asked.ask, "refused", str(error))
            return
        cut = f"cut {answer.cut}" if isinstance(answer, Saved) else ""
        self._note(asked.ask, "done", cut)

    def _note(self, kind: str, state: str, reason: str) -> None:
        with self._lock:
            self._told[kind] |= {"state": state, "reason": reason}
