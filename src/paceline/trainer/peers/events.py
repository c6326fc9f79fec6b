"""Events between trainers, as Harp has them beneath its locking and no-sync models.

A full inbox takes nothing: who sends waits until there is room, or its deadline is over.
The events of one sender arrive in order and once. Nothing is promised across a death: what
lay in the inbox of a trainer that dies is gone, and its successor begins with an empty one.

Waits: `PeerEvents.send` and `PeerEvents.events`, until their deadlines. The thread of the
user's script calls.
"""

import math
import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, final

import numpy as np

from paceline.errors import DeadlineExceeded, Refused, UsageError
from paceline.messages.peers import ArraySpec, PeerMessage, SendEvent
from paceline.messages.shared import Done, Refusal, Waiting
from paceline.messages.waits import Wait
from paceline.timing import Clock, Deadline
from paceline.trainer.client import Driver
from paceline.trainer.engine import Calls
from paceline.trainer.peers.link import PeerLink
from paceline.transport.frames import Buffer, ByteArray
from paceline.transport.service import Reply

T = TypeVar("T")

SEND_S = 30.0  # how long an event may take to get into an inbox, unless it is said
LOOK_EVERY_S = 0.25  # a closed session ends a wait for events
_NUMBER = re.compile("[<>|][biufc][0-9]{1,2}")  # NumPy's `dtype.str`
MOST_EVENTS = 1024
MOST_BYTES = 64 << 20  # of all that wait; also of a single one

Payload = bytes | tuple["np.ndarray", ...]


class Event(NamedTuple):
    """What another trainer has sent.

    Attributes:
        sender: role id of the trainer.
        topic: as it was sent.
        payload: bytes, or arrays of the shapes and dtypes that were sent; the receiver's.
    """

    sender: str
    topic: str
    payload: Payload


@final
class Inbox:
    """Events that wait, oldest first."""

    def __init__(
        self, most_events: int = MOST_EVENTS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._most_events, self._most_bytes = most_events, most_bytes
        self._waiting: deque[tuple[Event, int]] = deque()  # (event, its bytes)
        self._num_bytes = 0
        self._last: dict[str, tuple[int, int]] = {}  # {sender: (since, number)}

    def __len__(self) -> int:
        return len(self._waiting)

    def verdict(
        self, sender: str, since: int, number: int, num_bytes: int
    ) -> Literal["room", "known", "full", "too large"]:
        """Whether an event may be `put`; the numbers of a sender grow, from 1.

        ``since``: the incarnation in which the sender's process began to count; a later
        process of it counts anew.
        """
        if (since, number) <= self._last.get(sender, (0, 0)):
            return "known"
        if num_bytes > self._most_bytes:
            return "too large"
        is_full = len(self._waiting) >= self._most_events
        if is_full or self._num_bytes + num_bytes > self._most_bytes:
            return "full"
        return "room"

    def put(self, event: Event, since: int, number: int, num_bytes: int) -> None:
        """Take an event for which there is room."""
        self._last[event.sender] = (since, number)
        self._waiting.append((event, num_bytes))
        self._num_bytes += num_bytes

    def take(self) -> list[Event]:
        """All that wait, in order; none waits afterwards."""
        taken = [event for event, _ in self._waiting]
        self._waiting.clear()
        self._num_bytes = 0
        return taken

    def why_full(self) -> str:
        """What keeps an event out, for whoever sends it."""
        return (
            f"its inbox is full ({len(self._waiting)} events, {self._num_bytes} bytes): "
            f"its script has not called session.events or session.poll for a while"
        )


@final
class PeerEvents:
    """The events of one trainer."""

    def __init__(
        self,
        link: PeerLink,
        driver: Driver,
        calls: Calls,
        clock: Clock,
        join: Callable[[], object],
    ) -> None:
        """``join``: be a member again, if need be."""
        self.link, self._driver, self._calls = link, driver, calls
        self._clock, self._join = clock, join
        self._number = 0  # of the event that was sent last
        self._since: int | None = None  # whose numbers these are, however often it rejoins
        self._changed = threading.Condition()  # guards the inbox
        self._inbox = Inbox()
        link.answer(SendEvent, self._received, is_timeless=True)

    def send(
        self,
        to: str,
        payload: bytes | np.ndarray | Sequence[np.ndarray],
        topic: str = "",
        *,
        timeout_s: float = SEND_S,
    ) -> None:
        """See `paceline.trainer.session.Session.send`."""
        self._calls.check_open()
        arrays, buffers = _packed(payload)
        self.link.open()
        deadline = Deadline(self._clock, timeout_s)
        others = [to]
        if to == "all":
            others = sorted(self._as_member(lambda: self.link.wait_peers(timeout_s)))
        elif not to.startswith("trainer-") or to == self.link.trainer:
            raise UsageError(
                f"send: expected another trainer, such as 'trainer-1', or 'all'; got "
                f"{to!r} in {self.link.trainer}"
            )
        self._number += 1
        if self._since is None:
            self._since = self.link.incarnation
        event = SendEvent(
            incarnation=0,
            timeline=0,
            to=0,
            since=self._since,
            number=self._number,
            topic=topic,
            arrays=arrays,
        )
        for other in others:
            try:
                self._send(other, event, buffers, deadline)
            except DeadlineExceeded as late:
                raise DeadlineExceeded(
                    f"send: an event {topic!r} did not get to {other} within "
                    f"{timeout_s:g} s: {late}"
                ) from late

    def events(self, timeout_s: float) -> list[Event]:
        """See `paceline.trainer.session.Session.events`."""
        self._calls.check_open()
        self.link.open()
        deadline = Deadline(self._clock, timeout_s)
        wait = Wait("events", "events of other trainers")
        with self._driver.waits.showing(wait), self._changed:
            while not len(self._inbox) and not deadline.is_over():
                self._changed.wait(min(LOOK_EVERY_S, deadline.remaining_s()))
                self._calls.check_open()
            return self._inbox.take()

    def poll(self) -> list[Event]:
        """See `paceline.trainer.session.Session.poll`."""
        self._calls.check_open()
        self.link.open()
        with self._changed:
            return self._inbox.take()

    def _send(
        self, other: str, event: SendEvent, buffers: list[Buffer], deadline: Deadline
    ) -> None:
        def send() -> None:
            left_s = deadline.remaining_s()
            self.link.wait_answer(other, event, buffers, timeout_s=left_s)

        wait = Wait("events", f"{other} has not taken an event yet", (other,))
        with self._driver.waits.showing(wait):
            self._as_member(send)

    def _as_member(self, act: Callable[[], T]) -> T:
        """Do something as a member; one that has been fenced meanwhile joins first."""
        try:
            return act()
        except Refused as no:
            if no.kind not in {"fenced", "timeline"}:
                raise
        self._join()
        return act()

    def _received(
        self, sender: str, message: PeerMessage, buffers: list[ByteArray], reply: Reply
    ) -> None:
        """An event is at the door; by one of the door's threads."""
        assert isinstance(message, SendEvent)
        num_bytes = sum(buffer.nbytes for buffer in buffers)
        who = (message.since, message.number)
        with self._changed:
            verdict = self._inbox.verdict(sender, *who, num_bytes)
            if verdict == "room":
                payload = _unpacked(message.arrays, buffers)
                if payload is None:
                    verdict = "too large"
                else:
                    event = Event(sender, message.topic, payload)
                    self._inbox.put(event, *who, num_bytes)
                    self._changed.notify_all()
            why_full = self._inbox.why_full()
        if verdict == "full":
            reply(Waiting(wait=Wait("events", why_full)))
        elif verdict == "too large":
            text = f"an event of {num_bytes} bytes is none that an inbox takes"
            reply(Refusal(kind="invalid", text=text))
        else:
            reply(Done())


def _packed(
    payload: bytes | np.ndarray | Sequence[np.ndarray],
) -> tuple[tuple[ArraySpec, ...] | None, list[Buffer]]:
    """How a payload travels.

    Raises:
        UsageError: it does not.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        return None, [bytes(payload)]
    found = [payload] if isinstance(payload, np.ndarray) else list(payload)
    for array in found:
        kind = getattr(array, "dtype", type(array).__name__)
        if not (isinstance(kind, np.dtype) and kind.kind in "biufc"):
            raise UsageError(
                f"send: expected bytes or arrays of numbers, got {kind}; encode it as bytes"
            )
    whole = [np.ascontiguousarray(array) for array in found]
    specs = tuple(ArraySpec(array.shape, array.dtype.str) for array in found)
    return specs, [array.reshape(-1).view(np.uint8) for array in whole]


def _unpacked(
    arrays: tuple[ArraySpec, ...] | None, buffers: list[ByteArray]
) -> Payload | None:
    """A payload as it was sent, in memory of its own; None if it is malformed."""
    if arrays is None:
        return buffers[0].tobytes() if len(buffers) == 1 else None
    if len(arrays) != len(buffers):
        return None
    found = []
    for spec, buffer in zip(arrays, buffers, strict=True):
        array = _array_of(spec, buffer)
        if array is None:
            return None
        found.append(array)
    return tuple(found)


def _array_of(spec: ArraySpec, buffer: ByteArray) -> np.ndarray | None:
    """An array as it was sent; None if it is none, whatever numpy would make of it."""
    if not _NUMBER.fullmatch(spec.dtype) or min(spec.shape, default=0) < 0:
        return None
    try:
        dtype = np.dtype(spec.dtype)
        if buffer.nbytes != dtype.itemsize * math.prod(spec.shape):
            return None
        return buffer.copy().view(dtype).reshape(spec.shape)
    except (TypeError, ValueError, OverflowError):  # there is no such dtype, or shape
        return None
