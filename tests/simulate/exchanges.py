"""Values that travel between trainers, in the wind tunnel: the real calls and shelves.

What a trainer brings is a function of its incarnation and the number of its push, so that
what a committed round must come to is known from its contributions alone:

* same bits: all who are told a round's result are told the same;
* of exactly these: it is that of the round's contributions, in the order of the members.
"""

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from paceline.messages.peers import AskValues, Values
from paceline.messages.shared import Contribution, Message
from paceline.timing import Clock
from paceline.trainer.peers import Array, CollectiveCall, How, Operation
from paceline.trainer.peers.link import Admission
from paceline.trainer.peers.outbox import PeerOutbox
from paceline.trainer.peers.reduction import reduce_in_order
from paceline.trainer.protocol import TrainerProtocol
from paceline.transport.frames import Buffer, byte_view
from tests.simulate.checks import Violation
from tests.simulate.world import Answer, World

WIDTH = 5
SWEEP_S = 0.25


class CarriedValues(Values, frozen=True, tag=True):
    """Values with their bytes: here nothing travels beside a message."""

    content: tuple[bytes, ...]


def brought(incarnation: int, number: int) -> Array:
    """What a trainer brings with a push: numbers whose sum depends on their order."""
    draw = np.random.default_rng([incarnation, number])
    return draw.standard_normal(WIDTH) * 10.0 ** draw.integers(-8, 8, WIDTH)


@final
class WorldClock(Clock):
    """Virtual time."""

    def __init__(self, world: World) -> None:
        """Of a world."""
        self._world = world

    def now_s(self) -> float:
        """What time it is there."""
        return self._world.now_s

    def worked_s(self) -> float:
        """Computing takes no time there."""
        return 0.0


@final
class ExchangeHistory:
    """What rounds came to, as trainers were told."""

    def __init__(self, how: How) -> None:
        """No round yet; values travel as ``how`` says."""
        self.how: How = how
        self._told: dict[tuple[int, int, int], bytes] = {}

    def __len__(self) -> int:
        """Rounds whose result anybody was told."""
        return len(self._told)

    def told(self, timeline: int, part: int, number: int, result: Array) -> None:
        """A trainer was told what a round came to.

        Raises:
            Violation: another one was told other bits.
        """
        bits = result.tobytes()
        agreed = self._told.setdefault((timeline, part, number), bits)
        if agreed != bits:
            raise Violation(
                f"round {number} of part {part} on timeline {timeline} came to "
                f"{np.frombuffer(agreed)} and to {result}"
            )

    def check(
        self, timeline: int, part: int, number: int, made_of: Sequence[Contribution]
    ) -> None:
        """Its contributions are known.

        Raises:
            Violation: what was told is not what these come to.
        """
        told = self._told.get((timeline, part, number))
        values = [
            brought(one.incarnation, one.number)
            for one in sorted(made_of, key=lambda one: one.trainer)
        ]
        if told is None or not values:
            return
        if reduce_in_order("add", values).tobytes() != told:
            raise Violation(
                f"round {number} of part {part} on timeline {timeline} is of "
                f"{[one.trainer for one in made_of]}, and came to {np.frombuffer(told)}"
            )


@final
class SimDoor:
    """One trainer's door and shelf, and the call that is under way."""

    def __init__(
        self, world: World, protocol: TrainerProtocol, history: ExchangeHistory
    ) -> None:
        """Nothing is laid out."""
        self._protocol, self._history = protocol, history
        self._shelf = PeerOutbox(WorldClock(world))
        self._acquaintances = Admission()
        self._call: CollectiveCall | None = None

    def received(self, sender: str, message: AskValues, answer: Answer) -> None:
        """Another trainer asks for values."""
        protocol = self._protocol
        refusal = self._acquaintances.refusal_of(
            sender, message, protocol.asking.incarnation, protocol.asking.timeline
        )
        if refusal is not None:
            answer(refusal)
        else:
            self._shelf.received(sender, message, [], _carrying(answer))

    def sweep(self) -> None:
        """Time has passed."""
        self._shelf.sweep()

    def begin(self, part: int) -> None:
        """The next step of a part exchanges values."""
        protocol = self._protocol
        own = brought(protocol.asking.incarnation, protocol.parts[part].number + 1)
        operation = Operation("sum", "allreduce", "add", self._history.how)
        call = CollectiveCall(
            protocol.trainer, protocol.trainer, operation, [own], self._shelf
        )
        self._call = protocol.stepping.collectives[part] = call

    def landed(self, role: str, asked: AskValues, reply: Values) -> None:
        """Values have come."""
        assert isinstance(reply, CarriedValues)
        if self._call is None:
            return
        landing = self._call.attach(role, asked).landing
        assert landing is not None
        places = landing(reply, [len(content) for content in reply.content])
        for place, content in zip(places, reply.content, strict=True):
            byte_view(place)[:] = content

    def end(self, part: int, timeline: int, *, is_pushed: bool) -> None:
        """The step is over; with ``is_pushed``, its round is committed."""
        call, self._call = self._call, None
        self._protocol.stepping.collectives.pop(part, None)
        if call is not None and is_pushed:
            number = self._protocol.parts[part].round - 1
            self._history.told(timeline, part, number, call.results[0])


def _carrying(answer: Answer) -> Callable[..., None]:
    def reply(message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, Values):
            content = tuple(bytes(byte_view(buffer)) for buffer in buffers)
            message = CarriedValues(arrays=message.arrays, content=content)
        answer(message)

    return reply
