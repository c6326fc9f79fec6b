"""How a leader hears its followers: their calls wait until its own script has come as far.

Waits: for followers, without a bound. The thread of the user's script calls.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import msgspec

from paceline.errors import PacelineError, PeerLost, Preempted, UsageError
from paceline.messages.shared import StageSpec
from paceline.messages.waits import Wait
from paceline.trainer.client import Waits
from paceline.trainer.group import wire as wire
from paceline.trainer.verdicts import AfterStep
from paceline.transport.streams import FrameChannel, Received

Served = tuple[wire.Answer, Sequence[Any]] | None
Serve = Callable[[int, Received[wire.FromFollower], type[wire.Call]], Served]
"""(rank, its call, what the leader is at) -> the answer; None if the call has to wait."""

_NAMES: dict[type, str] = {
    wire.GroupShare: "session.share",
    wire.Begin: "session.batches, evaluate or predict",
    wire.Next: "the next batch of its loop",
    wire.LeaveLoop: "the end of a loop that it leaves early",
    wire.Step: "optimizer.step",
    wire.Bye: "the end of its session",
}


@final
class Followers:
    """Ranks 1, 2 ... as rank 0 hears them."""

    def __init__(
        self,
        place: wire.GroupPlace,
        serve: Serve,
        note: Callable[[wire.Tell], object],
        waits: Waits,
    ) -> None:
        """None has called yet; ``note`` is told what followers say without waiting."""
        self._waits = waits
        self._place, self._serve, self._note = place, serve, note
        self._channels = {
            number: FrameChannel(end, wire.CALLS, wire.LIMITS, f"rank {number}")
            for number, end in enumerate(place.channels, start=1)
        }
        self.calls: dict[int, Received[wire.FromFollower]] = {}  # {rank: not answered yet}
        self._stepped: dict[int, list[AfterStep]] = {}  # {rank: not told yet}

    @property
    def all(self) -> list[int]:
        """Their ranks."""
        return list(self._channels)

    def close(self) -> None:
        """Hang up."""
        for channel in self._channels.values():
            channel.close()
        self._channels = {}

    @contextmanager
    def hearing(
        self,
        kind: type[wire.Call],
        numbers: Iterable[int] | None = None,
        or_waits: bool = False,
    ) -> Iterator[dict[int, wire.FromFollower]]:
        """A call of this kind from each of these ranks; what fails here fails there, too.

        Args:
            kind: of the leader's own call.
            numbers: the ranks; all if None.
            or_waits: they may also wait for their next batch; those are left out.

        Raises:
            UsageError: one of them makes another call.
        """
        chosen = self.all if numbers is None else list(numbers)
        try:
            self.hear(chosen, kind)
            for number in chosen:
                self._check_kind(number, kind, or_waits=or_waits)
            found = {number: self.calls[number].message for number in chosen}
            yield {n: call for n, call in found.items() if isinstance(call, kind)}
        except (PacelineError, Preempted) as error:
            name = type(error).__name__
            self.answer(list(self.calls), wire.GroupFailed(name, str(error)))
            raise

    def hear(self, numbers: Iterable[int], kind: type[wire.Call]) -> None:
        """Wait until each of these waits in a call; serve those that need not wait."""
        for number in numbers:
            while True:
                if number not in self.calls:
                    self.calls[number] = self.receive(number)
                call = self.calls[number]
                served = None
                if not isinstance(call.message, kind):
                    served = self._serve(number, call, kind)
                if served is None:
                    break
                self.answer([number], *served)

    def receive(self, number: int, *, carried: bool = False) -> Received[wire.FromFollower]:
        """The next that a follower says, but for what it tells without waiting.

        Args:
            number: its rank.
            carried: what comes of an errand is waited for; nobody wants it otherwise.

        Raises:
            PeerLost: it has hung up, and this process did not end with it.
        """
        role = f"{self._place.role}.{number}"
        wait = Wait("ranks", f"rank {number} has not come to its next call", (role,))
        while True:
            try:
                with self._waits.showing(wait):
                    received = self._channels[number].receive()
            except PeerLost:
                self._place.lost(number)
                raise
            if isinstance(received.message, wire.Tell):
                self._note(received.message)
            elif carried or not isinstance(received.message, wire.GroupCarried):
                return received

    def answer(
        self, numbers: Iterable[int], answer: wire.Answer, buffers: Sequence[Any] = ()
    ) -> None:
        """End the waiting of these."""
        chosen = list(numbers)
        for number in chosen:
            self.calls.pop(number, None)
        self.tell(chosen, answer, buffers)

    def tell(
        self, numbers: Iterable[int], message: wire.FromLeader, buffers: Sequence[Any] = ()
    ) -> None:
        """Instruct these, who wait in a call.

        Raises:
            PeerLost: one has hung up, and this process did not end with it.
        """
        for number in numbers:
            stepped = tuple(self._stepped.pop(number, ()))
            said = msgspec.structs.replace(message, stepped=stepped) if stepped else message
            try:
                self._channels[number].send(said, buffers)
            except PeerLost:
                self._place.lost(number)
                raise

    def stepped(self, numbers: Iterable[int], stepped: AfterStep) -> None:
        """Let these know what became of a step, before anything else."""
        for number in numbers:
            self._stepped.setdefault(number, []).append(stepped)

    def check_same(self, number: int, theirs: object, ours: object, call: str) -> None:
        """Both have said the same.

        Raises:
            UsageError: they have not.
        """
        if theirs != ours:
            raise UsageError(
                f"{call}: rank 0 of {self._place.role} has {ours}, rank {number} has "
                f"{theirs}: every rank of a trainer makes the same calls"
            )

    def check_stages(self, calls: dict[int, wire.FromFollower], spec: StageSpec) -> None:
        """All begin the same stage.

        Raises:
            UsageError: they do not.
        """
        for number, call in calls.items():
            assert isinstance(call, wire.Begin)
            self.check_same(number, call.spec, spec, _name(wire.Begin))

    def _check_kind(self, number: int, kind: type[wire.Call], *, or_waits: bool) -> None:
        call = self.calls[number].message
        if not isinstance(call, kind) and not (or_waits and isinstance(call, wire.Next)):
            raise UsageError(
                f"rank 0 of {self._place.role} is at {_name(kind)}, rank {number} at "
                f"{_name(type(call))}: every rank of a trainer makes the same calls, in "
                "the same order; a loop is left by `break` in rank 0, or by "
                "session.stop(reason) in any rank"
            )


def _name(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)
